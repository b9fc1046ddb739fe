package exporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/internal/testlog"
	"github.com/docket-export/docket/sinks"
)

// A stop says every 3 s what it waits for: producers for four fifths of its time, then sinks.
func TestStopSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &funcSink{send: func(context.Context, sinks.Batch) error { return errors.New("down") }}
		cfg := &Config{
			Queue:    QueueConfig{Directory: socketless(t), MaxBytes: 16 << 20, WhenFull: Block},
			Limits:   defaultLimits(),
			Shutdown: defaultShutdown(),
			Sources:  []SourceConfig{{Name: "busy", Config: busySource{stopped: make(chan time.Time, 1)}}},
		}
		for name, config := range map[string]sinks.Config{"down": down, "fine": stuckSink{}} {
			cfg.Sinks = append(cfg.Sinks, SinkConfig{
				Name: name, Batch: sinks.BatchLimits{MaxRecords: 10, MaxBytes: 1000}, Retry: defaultRetry(), From: Oldest, Config: config,
			})
		}
		var log testlog.Buffer
		e := holding(t, cfg, &log, "{}\n{}\n")
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := e.Run(ctx); err == nil {
			t.Error("Run: got nil, want that the stuck sink does not close")
		}
		var got []string
		for line := range strings.Lines(log.String()) {
			if _, text, ok := strings.Cut(line, `msg="stopping: waiting for `); ok {
				got = append(got, strings.TrimSuffix(text, "\n"))
			}
		}
		var want []string
		for _, left := range []string{"13s", "10s", "7s", "4s", "1s"} {
			want = append(want, `producers to close" left.down=2 connections.busy=1 atMost=`+left)
		}
		want = append(want, `sinks to accept the rest" left.down=2 connections.busy=1 atMost=1s`)
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// Of many producers the log names some, and none of docket itself.
func TestConnectedProducersAreBounded(t *testing.T) {
	in := &ingest{live: map[queue.Producer]*session{}}
	for n := range 7 {
		in.live[queue.Producer{Source: "local", Identity: "uid:0", Name: fmt.Sprint("p", n)}] = nil
	}
	in.live[queue.Producer{Source: "local", Name: "own"}] = nil
	in.live[queue.Producer{Source: "other", Identity: "uid:0", Name: "gone"}] = nil
	got := in.connected(map[string]int{"local": 8, "idle": 0})
	want := []string{"local uid:0 p0", "local uid:0 p1", "local uid:0 p2", "local uid:0 p3", "local uid:0 p4", "and 2 more"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
