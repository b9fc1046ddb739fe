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

// split says which of the records that were set aside are kept and which are to be
// delivered after all, and returns how many are neither: they were given up, and count
// as dropped. When there are more than were set aside, those beyond have just been
// delivered and are about to go.
func (a *Account) split(kept, redriving uint64) (dropped uint64) {
	setAside := a.DeadLettered + a.Redriving
	a.DeadLettered = min(kept, setAside)
	a.Redriving = min(redriving, setAside-a.DeadLettered)
	dropped = setAside - a.DeadLettered - a.Redriving
	a.Dropped += dropped
	return dropped
}

// adopt is split for an account that was lost, or has missed the last moments before a
// crash: records that are set aside and count otherwise are taken from there.
func (a *Account) adopt(kept, redriving uint64) (dropped uint64) {
	setAside := a.DeadLettered + a.Redriving
	missing := kept + redriving - min(kept+redriving, setAside)
	for _, count := range []*uint64{&a.Delivered, &a.Filtered, &a.Dropped, &a.Corrupt} {
		taken := min(missing, *count)
		*count -= taken
		missing -= taken
		a.DeadLettered += taken
	}
	a.ForRoom = min(a.ForRoom, a.Dropped)
	return a.split(kept, redriving)
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

// CountSetAside has the account ask count, from now on, what has become of the records
// that were set aside: how many of those before next are kept, and how many are to be
// delivered after all. It returns how many are gone, which count as dropped. count is
// called with the queue locked: it must not call the queue, nor wait for long.
func (c *Cursor) CountSetAside(count func(next uint64) (kept, redriving uint64)) (dropped uint64) {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	dropped = c.account.adopt(count(c.account.Next))
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
		a.split(c.setAside(a.Next))
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

// saveAccounts returns once the accounts, as they are now, are durable.
func (q *Queue) saveAccounts(ctx context.Context) error {
	q.mu.Lock()
	goal := q.looks + 1 // the next look sees the accounts as they are now
	q.mu.Unlock()
	for {
		saved := q.saved.wait()
		q.mu.Lock()
		durable := q.savedLook >= goal
		q.mu.Unlock()
		if durable {
			return nil
		}
		wake(q.urgent)
		select {
		case <-saved:
		case <-q.stop:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// CountSetAside makes the account of a sink of a queue at rest say how many of the records
// before its place are kept and how many are to be delivered after all. Where the queue
// does not know the sink, or its cursors file is damaged, there is no account to put
// right, and that is no error.
func (o *Offline) CountSetAside(sink string, count func(next uint64) (kept, redriving uint64)) error {
	if err := o.takeLock(); err != nil {
		return err
	}
	a, ok := o.accounts[sink]
	before := a
	if a.adopt(count(a.Next)); !ok || o.cursorsErr != nil || a == before {
		return nil
	}
	return o.saveAccount(sink, a)
}
