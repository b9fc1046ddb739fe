package main

import (
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/client"
)

const (
	// singleRecords bounds the time on a slow disk: 1,000 syncs of 5 ms are 5 s.
	singleRecords  = 1000
	recordsPerTurn = 50
)

// single measures the time to an ack with one record in flight, and of what it
// consists at least.
func (l *lab) single() values {
	dir, answer := l.scratch(), filepath.Join(l.Short, "answer.sock")
	plain := overwriter{file: l.recycledFile(filepath.Join(dir, "raw")), commit: commitOf(1), span: segmentBytes}
	process.Start(l.T, nil, l.Self, answerCommand, answer)
	s := l.startWarm(dir)
	settle(l.T, filepath.Join(dir, "queue"))
	return ackTimes(l.T, plain.write, answer, s.socket)
}

// waiter does something once and returns how long that took.
type waiter func() time.Duration

// ackTimes measures a plain write, the way to a server that only answers and back,
// and the way to docket and back: of a bare producer, and of a client.
func ackTimes(t *trial.T, plain waiter, answer, docket string) values {
	c := trial.Must(client.New(client.Config{Address: "unix://" + docket}))
	t.Cleanup(func() error { _, err := c.Close(t.Context()); return err })
	r := denial()
	log := func() time.Duration {
		began := time.Now()
		trial.Check(c.Log(t.Context(), r))
		return time.Since(began)
	}
	log() // when it returns there is a connection
	keys := []string{"raw", "trip", "ack", "log"}
	waits := inTurns(plain, sendEach(t, answer), sendEach(t, docket), log)
	v := values{}
	for i, key := range keys {
		v[key], v[key+"99"] = quantiles(waits[i])
	}
	v["floor"] = v["raw"] + v["trip"]
	return v
}

// inTurns lets each program do it singleRecords times, a few at a time in turn, in
// the same weather: the time of a sync changes from second to second.
func inTurns(programs ...waiter) [][]time.Duration {
	waits := make([][]time.Duration, len(programs))
	for range singleRecords / recordsPerTurn {
		for i, program := range programs {
			for range recordsPerTurn {
				waits[i] = append(waits[i], program())
			}
		}
	}
	return waits
}

// sendEach is a waiter that sends a record.
func sendEach(t *trial.T, socket string) waiter {
	p := trial.Must(load.Connect(socket, 0, record.NewBlock(0)))
	t.Cleanup(func() error { p.Close(); return nil })
	return func() time.Duration { return trial.Must(p.Send(1, 1))[0] }
}
