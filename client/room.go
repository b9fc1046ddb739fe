package client

import (
	"context"
	"errors"
	"fmt"
)

// waiter is a line for which there was no room.
type waiter struct {
	line   *line      // nil when it waits no more
	result chan error // room for one: nil when the line is taken
}

// tryTake takes l if there is room, for which it drops what matters less. When
// it does not, l is counted as lost.
func (k *link) tryTake(l *line) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.ended()
	if err == nil {
		if !k.yields(l) && k.takeLocked(l) {
			return nil
		}
		err = ErrFull
	}
	k.loseLocked(l.kind, whyLost(err), 1)
	return err
}

// yields reports whether room belongs to lines that wait for it and matter as
// much as l, with mu held. What l can get by dropping others is its own.
func (k *link) yields(l *line) bool {
	for _, n := range k.waiting[:l.rank+1] {
		if n > 0 {
			return k.box.below(l.rank) == 0
		}
	}
	return false
}

// take takes l, for which it waits for room, until ctx is done: that is ErrFull.
// An error says that it was not taken. Once taken it is not dropped for another
// line.
func (k *link) take(ctx context.Context, l *line) error {
	l.keep = true
	k.mu.Lock()
	if err := k.ended(); err != nil {
		k.mu.Unlock()
		return err
	}
	if !k.yields(l) && k.takeLocked(l) {
		k.mu.Unlock()
		return nil
	}
	w := &waiter{line: l, result: make(chan error, 1)}
	k.waiters.pushBack(w)
	k.waiting[l.rank]++
	k.mu.Unlock()

	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.line == nil { // it was admitted, or rejected, at the same moment
		return <-w.result
	}
	k.waiting[l.rank]--
	w.line = nil
	k.admit() // the next may be smaller
	return fmt.Errorf("%w: %w", ErrFull, ending(ctx))
}

// ending is why ctx is done: its cause, which may not say that it was a deadline.
func ending(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

// admit takes lines that wait for room, as many as fit, with mu held.
func (k *link) admit() {
	for k.waiters.len() > 0 {
		w := k.waiters.at(0)
		if w.line != nil {
			if !k.takeLocked(w.line) {
				return
			}
			k.waiting[w.line.rank]--
			w.line = nil
			w.result <- nil
		}
		k.waiters.popFront()
	}
}

// rejectWaiters ends the waiting for room, with mu held.
func (k *link) rejectWaiters(err error) {
	for k.waiters.len() > 0 {
		if w := k.waiters.popFront(); w.line != nil {
			k.waiting[w.line.rank]--
			w.line = nil
			w.result <- err
		}
	}
}
