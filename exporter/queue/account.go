package queue

import (
	"context"
	"fmt"
)

// Account is one sink's place in the queue and what became of the records before
// it. At every moment
//
//	Next-1 = Delivered + Filtered + DeadLettered + Dropped + Corrupt + Redriving
type Account struct {
	Next         uint64 // seq of the first record that is not done
	Delivered    uint64
	Filtered     uint64 // not meant for this sink
	DeadLettered uint64 // set aside, outside of the queue
	Dropped      uint64 // given up, by a policy or an operator
	Corrupt      uint64 // lost to damage on disk
	// Redriving counts records before Next that were set aside and are to be
	// delivered after all.
	Redriving uint64
	// ForRoom counts those of Dropped that a full queue gave up.
	ForRoom uint64
	// ReplayTo is the seq at which a replay ends: the records from Next to it
	// have been done before. At most Next when none is under way.
	ReplayTo uint64
}

// Pending is how many records of a queue whose newest is lastSeq the sink has yet
// to deliver.
func (a Account) Pending(lastSeq uint64) uint64 { return lastSeq + 1 - a.Next + a.Redriving }

// Outcome says how many of the records that are done were not delivered, and why.
type Outcome struct {
	Filtered     uint64
	DeadLettered uint64
	Dropped      uint64
}

// done counts n records with this outcome. Where the queue has dropped some of
// them meanwhile, n is less than what o was made of, and what was set aside comes
// first: it exists.
func (a *Account) done(n uint64, o Outcome) {
	if gone := min(a.Dropped, o.DeadLettered-min(n, o.DeadLettered)); gone > 0 {
		a.Dropped -= gone // they were set aside before the queue dropped them
		a.ForRoom -= min(a.ForRoom, gone)
		a.DeadLettered += gone
		o.DeadLettered -= gone
	}
	for _, part := range []struct {
		count *uint64
		n     uint64
	}{{&a.DeadLettered, o.DeadLettered}, {&a.Dropped, o.Dropped}, {&a.Filtered, o.Filtered}} {
		taken := min(n, part.n)
		*part.count += taken
		n -= taken
	}
	a.Delivered += n
}

// dropForRoom counts n records that a full queue gives up.
func (a *Account) dropForRoom(n uint64) {
	a.Dropped += n
	a.ForRoom += n
}

// reconcile makes the account say that kept records are dead-lettered and
// redriving ones on their way, which is the truth of whoever keeps them. A record
// that the account counts and nobody keeps was given up. One that is kept although
// the account counts it as done otherwise is taken from there: the account was
// lost, or has missed the last moments before a crash. It returns how many were
// given up.
func (a *Account) reconcile(kept, redriving uint64) (dropped uint64) {
	before, now := a.DeadLettered+a.Redriving, kept+redriving
	if now <= before {
		a.Dropped += before - now
		a.DeadLettered, a.Redriving = kept, redriving
		return before - now
	}
	missing := now - before
	for _, count := range []*uint64{&a.Delivered, &a.Filtered, &a.Dropped, &a.Corrupt} {
		taken := min(missing, *count)
		*count -= taken
		missing -= taken
	}
	// More records than there are before Next cannot be kept; if somebody says so,
	// the books balance all the same.
	a.ForRoom = min(a.ForRoom, a.Dropped)
	taken := min(missing, redriving)
	a.Redriving = redriving - taken
	a.DeadLettered = kept - (missing - taken)
	return 0
}

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
	c.account.done(c.advance(seq+1), o)
	return nil
}

// Redelivered counts n records that were redriving as delivered.
func (c *Cursor) Redelivered(n uint64) {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	n = min(n, c.account.Redriving)
	c.account.Redriving -= n
	c.account.Delivered += n
	wake(c.q.dirty)
}

// Reconcile makes the account say that, of the records before its place, kept are
// dead-lettered and redriving are to be delivered after all. count is asked for
// both numbers with the place; it must not call the queue. It returns how many
// records now count as dropped, because nobody keeps them any more.
func (c *Cursor) Reconcile(count func(next uint64) (kept, redriving uint64)) (dropped uint64) {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	kept, redriving := count(c.account.Next)
	wake(c.q.dirty)
	return c.account.reconcile(kept, redriving)
}

// Sync returns once the account, as it is now, is durable. It fails when ctx is
// done, and with ErrClosed.
func (c *Cursor) Sync(ctx context.Context) error {
	c.q.mu.Lock()
	goal := c.q.looks + 1 // whoever looks next sees the account as it is now
	c.q.mu.Unlock()
	for {
		saved := c.q.saved.wait()
		c.q.mu.Lock()
		durable := c.q.savedLook >= goal
		c.q.mu.Unlock()
		if durable {
			return nil
		}
		wake(c.q.urgent)
		select {
		case <-saved:
		case <-c.q.stop:
			return ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("cursor %s: %w", c.name, context.Cause(ctx))
		}
	}
}

// Reconcile is Cursor.Reconcile for the sink of a queue at rest. Where the queue
// does not know the sink, or its cursors file is damaged, there is no account to put
// right, and that is no error.
func (o *Offline) Reconcile(sink string, kept, redriving uint64) error {
	if err := o.takeLock(); err != nil {
		return err
	}
	a, ok := o.account(sink)
	before := a
	if a.reconcile(kept, redriving); !ok || a == before {
		return nil
	}
	return o.saveAccount(sink, a)
}

// account is that of sink, where there is one that can be believed.
func (o *Offline) account(sink string) (a Account, ok bool) {
	if o.cursorsErr != nil {
		return Account{}, false
	}
	a, ok = o.accounts[sink]
	return a, ok
}
