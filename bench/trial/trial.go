// Package trial lets a measurement read like a test: what goes wrong ends it, as Fatal
// ends a test, and what it has started is ended with it.
package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// T is a measurement that runs.
type T struct {
	ctx      context.Context
	failed   bool
	cleanups []func() error
}

// failure is what Check ends a measurement with.
type failure struct{ error }

// Run measures, and returns why that has ended early, or how the cleaning up has failed.
func Run(ctx context.Context, measure func(t *T)) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &T{ctx: ctx, failed: true}
	defer func() { // after a panic too
		for _, cleanup := range slices.Backward(t.cleanups) {
			err = errors.Join(err, catch(cleanup))
		}
	}()
	err = catch(func() error { measure(t); return nil })
	t.failed = err != nil
	return err
}

func catch(do func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	return do()
}

// Check ends the measurement with err unless that is nil. Like Fatal of a test it is
// called on the goroutine of the measurement, never on another.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must returns v unless there is an error, which ends the measurement as in Check.
func Must[V any](v V, err error) V {
	Check(err)
	return v
}

// Context is done when the measurement has to end.
func (t *T) Context() context.Context { return t.ctx }

// Cleanup has f called at the end of the measurement, after what was given to it later.
func (t *T) Cleanup(f func() error) { t.cleanups = append(t.cleanups, f) }

// Failed reports, while the measurement is cleaned up, whether it has ended early.
func (t *T) Failed() bool { return t.failed }

// Poll calls done until it is true, with a pause between. The measurement ends when that
// takes longer than atMost.
func (t *T) Poll(what string, pause, atMost time.Duration, done func() bool) {
	ctx, cancel := context.WithTimeout(t.ctx, atMost)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			Check(fmt.Errorf("waiting %s: %w", what, ctx.Err()))
		}
	}
}

// Sleep waits so long, or until the measurement has to end.
func (t *T) Sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.ctx.Done():
		Check(fmt.Errorf("waiting: %w", t.ctx.Err()))
	}
}

// Part runs a part of the measurement, for atMost at the longest, and ends with it what
// that part has started. 0: as long as it takes. An error begins with what failed, unless
// that is empty.
func (t *T) Part(what string, atMost time.Duration, part func(t *T)) {
	ctx, cancel := t.ctx, context.CancelFunc(func() {})
	if atMost > 0 {
		ctx, cancel = context.WithTimeout(t.ctx, atMost)
	}
	defer cancel()
	err := Run(ctx, part)
	if err != nil && what != "" {
		err = fmt.Errorf("%s: %w", what, err)
	}
	Check(err)
}
