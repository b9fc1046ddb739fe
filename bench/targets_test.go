package main

import (
	"testing"

	"github.com/docket-export/docket/bench/report"
)

// Every target of the design has a row, and the row has the target.
func TestEveryTargetHasARow(t *testing.T) {
	atLeast := func(v float64) report.Target { return report.Target{AtLeast: v} }
	atMost := func(v float64) report.Target { return report.Target{AtMost: v} }
	tests := []struct {
		what, experiment, key string
		want                  report.Target
	}{
		{"append in the queue against the disk", "queue", "toRecycled", atLeast(0.7)},
		{"append in the queue against tidwall/wal", "queue", "toWAL", atLeast(10)},
		{"ingest against the disk", "ingest", "toRecycled", atLeast(0.4)},
		{"ingest against itself without sync", "ingest", "toUnsynced", atLeast(0.8)},
		{"ingest against tidwall/wal", "ingest", "toWAL", atLeast(5)},
		{"one record in flight", "single", "ratio", atMost(1.3)},
		{"one record in flight, the slowest", "single", "tail", atMost(2)},
		{"a burst from one producer", "burst", "oneToFresh", atMost(1.5)},
		{"a burst from eight", "burst", "eightToFresh", atMost(1.5)},
		{"processor time", "ingest", "cpu", atMost(1.5)},
		{"processor time without validation", "ingest", "rest", atMost(0.6)},
		{"memory at rest", "idle", "memory", atMost(20)},
		{"memory under full load", "load", "memory", atMost(64)},
		{"open with 5 GB", "open", "ready", atMost(100)},
		{"delivery to files", "backlog", "ratio", atLeast(0.5)},
		{"idempotent delivery to Kafka against a plain loop", "kafka", "slower", atMost(1)},
		{"exactly once against at least once, small batches", "modes", "ratio500", atLeast(0.8)},
		{"exactly once against at least once", "modes", "ratio4000", atLeast(0.8)},
		{"exactly once against at least once with three brokers, small batches", "modes3", "ratio500", atLeast(0.8)},
		{"exactly once against at least once with three brokers", "modes3", "ratio4000", atLeast(0.8)},
		{"delivery to what accepts everything", "accepting", "rate", atLeast(1e6)},
		{"cost with 5 GB", "flat", "appendRatio", atLeast(0.9)},
		{"cost with eight sinks", "sinks", "flat", atLeast(0.9)},
		{"processor time with eight sinks", "sinks", "flatCPU", atMost(1.1)},
		{"TryLog", "trylog", "on", atMost(500)},
		{"TryLog, allocations", "trylog", "onAllocs", atMost(1)},
		{"TryLog of a client that is off", "trylog", "off", atMost(2)},
		{"a review through tap", "tap", "added", atMost(150)},
		{"a review through tap, the slowest", "tap", "added99", atMost(1000)},
		{"throughput with records", "tapLoad", "ratio", atLeast(0.97)},
		{"processor time of a review", "tapLoad", "loggedCPU", atMost(60)},
		{"a review of docket-webhook against Gatekeeper", "engine", "ratio", atMost(1)},
		{"a review of docket-webhook against Gatekeeper, the slowest", "engine", "ratio99", atMost(1)},
		{"throughput of docket-webhook with records", "engine", "recording", atLeast(0.97)},
		{"memory with 64 reviews of 1 MB", "tapMemory", "memory", atMost(24)},
		{"start over 500 MB, listening", "start500", "closed", atMost(30)},
		{"start over 500 MB, first record", "start500", "closedFirst", atMost(50)},
		{"start over 500 MB, memory", "start500", "closedMemory", atMost(24)},
		{"start over 500 MB after a kill, listening", "start500", "killed", atMost(30)},
		{"start over 500 MB after a kill, first record", "start500", "killedFirst", atMost(50)},
		{"start over 500 MB after a kill, memory", "start500", "killedMemory", atMost(24)},
	}
	rows := map[string]row{}
	for _, e := range experiments() {
		for _, r := range e.Rows {
			rows[e.Name+" "+r.Key] = r
		}
	}
	for _, tt := range tests {
		r, ok := rows[tt.experiment+" "+tt.key]
		if !ok {
			t.Errorf("%s: experiment %s has no row %s", tt.what, tt.experiment, tt.key)
			continue
		}
		if r.Target == nil || *r.Target != tt.want {
			t.Errorf("%s: %s of %s: got target %v, want %v", tt.what, tt.key, tt.experiment, r.Target, tt.want)
		}
	}
}
