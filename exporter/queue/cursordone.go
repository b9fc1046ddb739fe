package queue

import (
	"context"
	"fmt"
)

// Ack marks every record up to and including seq as delivered: Settle without an
// outcome.
func (c *Cursor) Ack(seq uint64) error { return c.Settle(seq, Outcome{}) }

// Settle marks every record up to and including seq as done: o says how many of
// them were not delivered. The position becomes durable a little later; after a
// crash before that, the records come again. It may be called during Next.
func (c *Cursor) Settle(seq uint64, o Outcome) error {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if seq > c.returned {
		return fmt.Errorf("cursor %s: records up to %d are marked as done but were not returned yet", c.name, seq)
	}
	c.account.Done(c.advance(seq+1), o)
	return nil
}

// Save returns once the account as it is now is durable. It fails when ctx is done and with
// ErrClosed.
func (c *Cursor) Save(ctx context.Context) error {
	if err := c.q.saveAccounts(ctx); err != nil {
		return fmt.Errorf("cursor %s: %w", c.name, err)
	}
	return nil
}

// SetReplayed sets Account.Replayed to the value that the destination has, for an account
// that does not know it.
func (c *Cursor) SetReplayed(replayed int64) {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	c.account.Replayed = replayed
	wake(c.q.dirty)
}

// Redelivered counts n records that were set aside as delivered. Once the count is
// durable it calls remove, which removes the records from where they are kept. After a
// crash in between, the records come again. If the count
// cannot become durable, or remove fails, nothing is counted. It fails when ctx is done,
// with ErrClosed, and with the error of remove.
func (c *Cursor) Redelivered(ctx context.Context, n uint64, remove func() error) error {
	if err := ctx.Err(); err != nil { // the account might be saved before anybody looks
		return fmt.Errorf("cursor %s: %w", c.name, err)
	}
	move := func(from, to *uint64) {
		c.q.mu.Lock()
		defer c.q.mu.Unlock()
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
