package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/docket-export/docket/client/clienttest"
)

const (
	// abandonAfter is how long a producer may take to return once its time is
	// over.
	abandonAfter = 5 * time.Second
	// lastLook is how long the exporter reads what a producer that has ended left
	// in its connections.
	lastLook = time.Second
	// byHandLook is how long a producer that is not ours is watched when all is
	// acknowledged: it may send something twice.
	byHandLook = 300 * time.Millisecond
)

var (
	errTimeout   = errors.New("the time for the scenario is over")
	errAbandoned = errors.New("it did not end when its time was over")
)

// trial is one scenario under way.
type trial struct {
	*clienttest.Exporter
	scenario Scenario
	records  int
	timeout  time.Duration
	produce  Producer
	byHand   bool
	door     *door
	happened chan struct{} // one for each time that at came true

	err   error   // what the producer returned
	atEnd account // when it ended
	last  account // when nothing more could come
}

// account is what had happened at one moment.
type account struct {
	lines, refused, turnedAway []clienttest.Line
	told, connections          int
}

func newTrial(s Suite, scenario Scenario, p Producer) (*trial, error) {
	t := &trial{
		Exporter: clienttest.New(),
		scenario: scenario,
		records:  max(s.Records*max(scenario.factor, 1), scenario.least),
		timeout:  s.Timeout,
		produce:  p,
		happened: make(chan struct{}, 10), // more than any scenario plans
	}
	if p == nil {
		t.byHand, t.produce = true, t.watch(s.Waiting)
	}
	var err error
	if t.door, err = openDoor(t.Exporter, s.Address); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// run plays the scenario, and returns when the producer has ended. The error is
// that of the exporter.
func (t *trial) run(ctx context.Context) error {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(t.timeout, func() { cancel(errTimeout) })
	defer timer.Stop()
	if t.byHand {
		timer.Stop()
		t.After(1, func() { timer.Reset(t.timeout) })
	}
	t.scenario.prepare(t)
	ended := make(chan struct{})
	playing, stop := context.WithCancel(limited)
	go func() {
		defer close(ended)
		defer stop()
		t.supervise(limited)
	}()
	if t.scenario.play != nil {
		t.scenario.play(playing, t)
	}
	<-ended
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return t.door.failure()
}

// supervise runs the producer to its end. One that does not return although its
// time is over is left behind.
func (t *trial) supervise(ctx context.Context) {
	type end struct {
		err error
		at  account
	}
	returned := make(chan end, 1)
	go func() {
		err := t.produce(ctx, t.door.url(), t.records)
		returned <- end{err, t.account()}
	}()
	var e end
	select {
	case e = <-returned:
	case <-ctx.Done():
		select {
		case e = <-returned:
			if e.err != nil { // it says how it was ended, not why
				e.err = context.Cause(ctx)
			}
		case <-time.After(abandonAfter):
			e = end{errAbandoned, t.account()}
		}
	}
	t.err, t.atEnd = e.err, e.at
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	_ = t.WaitUntil(look, func() bool { return t.Connected() == 0 }) // what is there by then counts
	t.last = t.account()
}

// watch is the producer for somebody who connects by himself.
func (t *trial) watch(waiting func(Scenario, string, int)) Producer {
	return func(ctx context.Context, address string, records int) error {
		if waiting != nil {
			waiting(t.scenario, address, records)
		}
		err := t.WaitUntil(ctx, func() bool { return t.account().complete(records) })
		if err != nil {
			return err
		}
		t.pause(ctx, byHandLook)
		return nil
	}
}

func (t *trial) close() {
	t.door.shut()
	t.Close()
	_ = t.door.remove() // an empty directory in the temporary one is no harm
}

func (t *trial) account() account {
	return account{lines: t.Lines(), refused: t.Refused(), turnedAway: t.TurnedAway(), told: t.Told(), connections: t.Connections()}
}

// pause lets d pass, or less if ctx is done.
func (t *trial) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// until waits for done. It is false when the producer has ended before.
func (t *trial) until(ctx context.Context, done func() bool) bool {
	return t.WaitUntil(ctx, done) == nil
}

// at calls do when n more lines have come, and the last of them is not decided.
func (t *trial) at(n int, do func()) {
	t.After(n, func() {
		do()
		t.happened <- struct{}{}
	})
}

// happens waits for the next at to come true. It is false when the producer has
// ended before.
func (t *trial) happens(ctx context.Context) bool {
	select {
	case <-t.happened:
		return true
	case <-ctx.Done():
		return false
	}
}

// leave makes the exporter go away, as in a crash: connections break, and nobody
// listens any more.
func (t *trial) leave() {
	t.Down()
	t.door.shut()
}

// comeBack listens again, at the same address.
func (t *trial) comeBack() {
	t.Up()
	if err := t.door.open(); err != nil {
		t.door.fail(err)
	}
}

// stored are the texts of all lines stored, and how often each was.
func (a account) stored() map[string]int { return texts(a.lines) }

func texts(lines []clienttest.Line) map[string]int {
	m := make(map[string]int, len(lines))
	for _, l := range lines {
		m[l.Text]++
	}
	return m
}

// arrived is how many different records are stored or refused for good.
func (a account) arrived() int {
	m := a.stored()
	for _, l := range a.refused {
		m[l.Text]++
	}
	return len(m)
}

// decided is how many lines were stored or refused.
func (a account) decided() int { return len(a.lines) + len(a.refused) }

// complete reports whether all records have arrived and the producer knows.
func (a account) complete(records int) bool {
	return a.arrived() >= records && a.told >= a.decided()
}
