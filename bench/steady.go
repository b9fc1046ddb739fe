package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/site"
)

// steady is a docket as it is in the long run: its sinks keep up, so what it writes
// goes over segments that it has delivered. It is loaded in laps of what it has
// segments ready for. During a lap its sinks either wait for their destination, with a
// batch under way, or follow; the clock stands still between the laps, while they
// deliver what is left and the queue makes its segments ready again.
type steady struct {
	*sidecar
	l      *lab
	gate   *gate
	sinks  []string // names
	queue  string   // directory
	stored int      // records
}

const (
	// steadyLap is what two segments hold, and a little less: the queue keeps three
	// that are done with.
	steadyLap = 2 * lapRecords
	// steadyWarmLaps fill what a docket keeps: its segments, and its buffers.
	steadyWarmLaps = 2
)

// steadyLaps is how many laps come to twice the records of a measurement.
func (l *lab) steadyLaps() int { return max(2, 2*l.records/steadyLap) }

// startSteady starts a docket with its queue below dir and a number of sinks, and
// warms it up.
func (l *lab) startSteady(ctx context.Context, dir string, with setup, count int) (s *steady, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	s = &steady{l: l, queue: filepath.Join(dir, "queue")}
	if s.gate, err = newGate(); err != nil {
		return nil, err
	}
	for i := range count {
		name := fmt.Sprint("sink-", i)
		s.sinks = append(s.sinks, name)
		// The last batch of a lap is not full, and no lap is to wait a second for it.
		with.sinks = append(with.sinks, fmt.Sprintf("- {name: %s, batch: {maxWait: 5ms}, http: {url: %q}}", name, "http://"+s.gate.address+"/"+name))
	}
	if s.sidecar, err = l.startSetup(ctx, dir, with); err != nil {
		s.gate.close()
		return nil, err
	}
	for range steadyWarmLaps {
		if _, err := s.lap(ctx, steadyLoad, false); err != nil {
			err = errors.Join(err, s.LastWords())
			s.gate.close()
			return nil, err
		}
	}
	return s, nil
}

// end ends the docket and its destinations.
func (s *steady) end() {
	s.kill()
	s.gate.close()
}

// stint is what laps of a steady docket have come to.
type stint struct {
	records int
	took    time.Duration
	commits float64
	cpu     time.Duration // of docket
}

func (t stint) rate() float64         { return float64(t.records) / t.took.Seconds() }
func (t stint) perCommit() float64    { return float64(t.records) / t.commits }
func (t stint) cpuOfMillion() float64 { return t.cpu.Seconds() / float64(t.records) * 1e6 }

func (t *stint) add(lap stint) {
	t.records += lap.records
	t.took += lap.took
	t.commits += lap.commits
	t.cpu += lap.cpu
}

// lap waits until docket and the disk are at rest and runs the load, whose socket is
// that of docket. If the sinks do not follow, each has a batch under way before.
func (s *steady) lap(ctx context.Context, o load, follow bool) (stint, error) {
	o.Socket = s.socket
	if err := site.Rest(s.queue); err != nil {
		return stint{}, err
	}
	if err := settle(ctx, s.queue); err != nil {
		return stint{}, err
	}
	if !follow {
		s.gate.shut()
		if err := s.occupy(ctx); err != nil {
			s.gate.open()
			return stint{}, err
		}
	}
	lap, err := s.measure(ctx, o)
	if !follow {
		s.gate.open()
	}
	if err != nil {
		return lap, err
	}
	s.stored += lap.records
	return lap, s.deliverAll(ctx)
}

// occupy gives each sink a batch, which stays at the gate.
func (s *steady) occupy(ctx context.Context) error {
	if _, err := s.l.produce(ctx, load{s.socket, 1, 1, 1}); err != nil {
		return err
	}
	s.stored++
	return s.gate.wait(ctx, len(s.sinks))
}

// measure runs the load and says what it has cost docket.
func (s *steady) measure(ctx context.Context, o load) (stint, error) {
	var lap stint
	defer s.profile(ctx)()
	commits, err := s.commits(ctx)
	if err != nil {
		return lap, err
	}
	cpu, err := s.CPUTime()
	if err != nil {
		return lap, err
	}
	p, err := s.l.produce(ctx, o)
	if err != nil {
		return lap, err
	}
	cpuAfter, err := s.CPUTime()
	if err != nil {
		return lap, err
	}
	commitsAfter, err := s.commits(ctx)
	return stint{records: p.Records, took: p.took(), commits: commitsAfter - commits, cpu: cpuAfter - cpu}, err
}

// deliverAll waits until each sink has everything.
func (s *steady) deliverAll(ctx context.Context) error {
	for _, sink := range s.sinks {
		if err := s.waitDelivered(ctx, sink, s.stored); err != nil {
			return fmt.Errorf("sink %s: %w", sink, err)
		}
	}
	return nil
}
