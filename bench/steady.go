package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/bench/trial"
)

// steady is a docket as it is in the long run: its sinks keep up, so what it writes
// goes over segments that it has delivered. It is loaded in laps of what it has
// segments ready for. During a lap its sinks either wait for their destination, with a
// batch under way, or follow; the clock stands still between the laps, while they
// deliver what is left and the queue makes its segments ready again.
type steady struct {
	*sidecar
	gate   *gate
	sinks  []string // names
	queue  string   // directory
	stored int      // records
}

const (
	// lapRecords is a little less than a segment of the default size holds: nearly
	// every lap goes on to the next segment once, as often as a load without end.
	lapRecords = 60 << 10
	// steadyLap is what two segments hold, and a little less: the queue keeps three
	// that are done with.
	steadyLap = 2 * lapRecords
	// warmLaps fill what a docket, or a queue, keeps: its segments, and its buffers.
	warmLaps = 2
)

// laps is how many laps come to twice the records of a measurement: one alone is too
// short to trust.
func (l *lab) laps(records int) int { return max(2, 2*l.records/records) }

// startSteady starts a docket with its queue below dir and a number of sinks, and
// warms it up.
func (l *lab) startSteady(dir string, with setup, count int) *steady {
	trial.Check(os.Mkdir(dir, 0o700))
	s := &steady{queue: filepath.Join(dir, "queue"), gate: newGate(l.T)}
	for i := range count {
		name := fmt.Sprint("sink-", i)
		s.sinks = append(s.sinks, name)
		// The last batch of a lap is not full, and no lap is to wait a second for it.
		with.sinks = append(with.sinks, fmt.Sprintf("- {name: %s, batch: {maxWait: 5ms}, http: {url: %q}}", name, "http://"+s.gate.address+"/"+name))
	}
	s.sidecar = l.startSetup(dir, with)
	for range warmLaps {
		s.lap(load.Full("", steadyLap), false)
	}
	return s
}

// lap waits until docket and the disk are at rest and runs the load. If the sinks do
// not follow, each has a batch under way before.
func (s *steady) lap(o load.Load, follow bool) stint {
	site.Rest(s.queue)
	settle(s.lab.T, s.queue)
	if !follow {
		s.occupy()
	}
	lap := s.load(o)
	if !follow {
		s.gate.open()
	}
	s.stored += lap.Records
	for _, sink := range s.sinks {
		s.waitDelivered(sink, s.stored)
	}
	return lap
}

// occupy gives each sink a batch, which stays at the gate.
func (s *steady) occupy() {
	s.gate.shut()
	s.lab.produce(load.Load{Socket: s.socket, Producers: 1, Window: 1, Records: 1})
	s.stored++
	s.gate.wait(s.lab.T, len(s.sinks))
}
