package main

import (
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest"
)

// serve returns an exporter in memory and a socket that leads to it.
func serve(t *testing.T) (*clienttest.Exporter, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	e := clienttest.New()
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ln) }()
	t.Cleanup(func() {
		e.Close()
		if err := <-ended; err != nil {
			t.Errorf("exporter: %v", err)
		}
		for _, v := range e.Violations() {
			t.Errorf("against the protocol: %v", v)
		}
	})
	return e, socket
}

// valueKeys are the rows of an experiment that are measured, sorted.
func valueKeys(t *testing.T, name string) []string {
	t.Helper()
	var keys []string
	for _, e := range experiments() {
		if e.Name != name {
			continue
		}
		for _, r := range e.Rows {
			if r.Ratio == nil {
				keys = append(keys, r.Key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// memory returns an exporter in memory and a client of it, for a bubble.
func memory(t *testing.T) (*clienttest.Exporter, *client.Client) {
	t.Helper()
	e := clienttest.New()
	c, err := client.New(client.Config{
		Address: "memory://exporter",
		Transports: map[string]client.Transport{
			"memory": func(string, *client.Config) (client.Dial, error) { return e.Dial, nil },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, c
}

// The programs take turns, and what each of them measures is its own.
func TestInTurns(t *testing.T) {
	var order []string
	program := func(name string, took time.Duration) waiter {
		return func() time.Duration {
			order = append(order, name)
			return took
		}
	}
	waits := inTurns(program("a", 1), program("b", 2))
	turns := append(slices.Repeat([]string{"a"}, recordsPerTurn), slices.Repeat([]string{"b"}, recordsPerTurn)...)
	if want := slices.Repeat(turns, singleRecords/recordsPerTurn); !slices.Equal(order, want) {
		t.Errorf("got the order %v, want %v", order, want)
	}
	for i, took := range []time.Duration{1, 2} {
		if want := slices.Repeat([]time.Duration{took}, singleRecords); !slices.Equal(waits[i], want) {
			t.Errorf("program %d: got %d waits %v, want %d of %v", i, len(waits[i]), slices.Compact(waits[i]), singleRecords, took)
		}
	}
}

func TestAckTimes(t *testing.T) {
	answer := filepath.Join(t.TempDir(), "s")
	ended := make(chan error, 1)
	go func() { ended <- answerMain(t.Context(), []string{answer}, nil) }()
	e, docket := serve(t)
	var values values
	attempt(t, func(tr *trial.T) {
		values = ackTimes(tr, func() time.Duration { return time.Second }, answer, docket)
	})
	if err := <-ended; err != nil {
		t.Errorf("answer: %v", err)
	}
	if got, want := slices.Sorted(maps.Keys(values)), valueKeys(t, "single"); !slices.Equal(got, want) {
		t.Errorf("got values for %v, want %v", got, want)
	}
	if got, want := values["floor"], 1e6+values["trip"]; values["raw"] != 1e6 || got != want {
		t.Errorf("got a floor of %v us with %v for the plain write, want %v with 1e6", got, values["raw"], want)
	}
	for key, value := range values {
		if value <= 0 {
			t.Errorf("%s: got %v us", key, value)
		}
	}
	// A client's first record is not measured.
	if got, want := len(e.Lines()), 2*singleRecords+1; got != want {
		t.Errorf("got %d lines at the exporter, want %d: as many from the client as from the producer", got, want)
	}
}

// A load brings in what it says, each line once, from a process of its own.
func TestLoad(t *testing.T) {
	e, socket := serve(t)
	var p load.Done
	in(t, testLab(t), func(l *lab) {
		p = l.produce(load.Load{Socket: socket, Producers: load.Producers, Window: 100, Records: 5000})
	})
	if p.Records != 5000 || p.Took() <= 0 || p.CPU <= 0 {
		t.Errorf("got %+v, want 5000 records and the time they took", p)
	}
	seen := map[string]bool{}
	for _, line := range e.Lines() {
		seen[line.Text] = true
	}
	if len(seen) != p.Records || len(e.Lines()) != p.Records {
		t.Errorf("got %d lines and %d different ones at the exporter, want %d", len(e.Lines()), len(seen), p.Records)
	}
}

func TestCrowd(t *testing.T) {
	e, socket := serve(t)
	block := record.NewBlock(0)
	var first, others crowd
	attempt(t, func(tr *trial.T) {
		for _, step := range []struct {
			name             string
			do               func()
			connected, lines int
		}{
			{"first", func() { first = joinCrowd(tr, socket, block, 0, 1) }, 1, 0},
			{"its record", func() { first.send(1) }, 1, 1},
			{"others", func() { others = joinCrowd(tr, socket, block, 1, 20) }, 21, 1},
			{"one record each", func() { others.send(1) }, 21, 21},
			{"a burst each", func() { others.send(crowdBurst) }, 21, 21 + 20*crowdBurst},
		} {
			step.do()
			if got := e.Connected(); got != step.connected {
				t.Errorf("%s: got %d connections, want %d: each producer keeps its own", step.name, got, step.connected)
			}
			if got := len(e.Lines()); got != step.lines {
				t.Errorf("%s: got %d lines, want %d", step.name, got, step.lines)
			}
		}
	})
}

func TestCheckFiles(t *testing.T) {
	if err := enoughFiles(crowdSize + otherFiles); err != nil {
		t.Errorf("just enough: got error %v", err)
	}
	if err := enoughFiles(1024); err == nil || !strings.Contains(err.Error(), "1024") {
		t.Errorf("the usual soft limit: got error %v", err)
	}
}

// An experiment that needs the large backlog says so before the first round if there is
// no room for it, or no disk.
func TestLargeExperimentsCheckTheRoom(t *testing.T) {
	l := &lab{Site: &site.Site{Disk: filepath.Join(t.TempDir(), "missing")}}
	for _, large := range []bool{true, false} {
		if err := trial.Run(t.Context(), func(tr *trial.T) { l.in(tr).check(&experiment{Name: "e", Large: large}) }); (err != nil) != large {
			t.Errorf("large %v: got error %v", large, err)
		}
	}
}
