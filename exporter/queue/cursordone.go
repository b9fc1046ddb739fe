package queue

import (
	"context"
	"fmt"
)

// Ack marks every record up to and including seq as delivered: Settle without an
// outcome.
func (c *Cursor) Ack(seq uint64) error { return c.Settle(seq, Outcome{}) }

// Settle marks every record up to and including seq as done: o says how many of
// them were not delivered. The place becomes durable a little later; a crash
// before that brings the records again. It may be called during Next.
func (c *Cursor) Settle(seq uint64, o Outcome) error {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if seq > c.returned {
		return fmt.Errorf("cursor %s: records up to %d are said to be done, which were not returned yet", c.name, seq)
	}
	c.account.Done(c.advance(seq+1), o)
	return nil
}

// CountSetAside has the account ask count, from now on, what has become of the records
// that were set aside: how many of those before next are kept, and how many are to be
// delivered after all. It returns how many are gone, which count as dropped. count is
// called with the queue locked: it must not call the queue, nor wait for long.
func (c *Cursor) CountSetAside(count func(next uint64) (kept, redriving uint64)) (dropped uint64) {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	dropped = c.account.Adopt(count(c.account.Next))
	c.setAside = count
	c.fold()
	wake(c.q.dirty)
	return dropped
}

// fold makes DeadLettered all records that are still set aside. Callers hold q.mu.
func (c *Cursor) fold() {
	c.account = c.now()
	c.account.DeadLettered, c.account.Redriving = c.account.DeadLettered+c.account.Redriving, 0
}

// now is the account with what count says of the records that were set aside. Callers
// hold q.mu.
func (c *Cursor) now() Account {
	a := c.account
	if c.setAside != nil {
		a.Split(c.setAside(a.Next))
	}
	return a
}

// Redelivered counts n records that were set aside as delivered, and calls remove, which
// removes them from where they are kept, once that is durable: a crash in between brings
// them again, and none counts as dropped. When it cannot be durable, or remove fails,
// nothing is counted. It fails when ctx is done, with ErrClosed, and as remove does.
func (c *Cursor) Redelivered(ctx context.Context, n uint64, remove func() error) error {
	move := func(from, to *uint64) {
		c.q.mu.Lock()
		defer c.q.mu.Unlock()
		c.fold() // else what is about to go would hide what is gone
		n = min(n, *from)
		*from -= n
		*to += n
		wake(c.q.dirty)
	}
	move(&c.account.DeadLettered, &c.account.Delivered)
	err := c.q.saveAccounts(ctx)
	if err == nil {
		err = remove()
	}
	if err != nil {
		move(&c.account.Delivered, &c.account.DeadLettered)
		return fmt.Errorf("cursor %s: %w", c.name, err)
	}
	return nil
}
