package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/docket-export/docket/decision"
)

// An engine that must not keep its caller waiting decides, answers, and only then makes
// the record. What makes it is put off until later: to a goroutine of the client, which
// Flush and Close know of, so nobody can forget to wait for it.

const (
	// maxLater is how many functions may be put off at a time: a second of a busy
	// webhook, on a machine whose processors are all taken.
	maxLater = 4096
	// laterPause is the least time between two rounds of them. A function that comes alone
	// runs at once, and records of a busy webhook reach the exporter together: one that
	// wakes it and its disk for itself costs as much processor time as the review.
	laterPause = 10 * time.Millisecond
	// maxLaterBytes bounds what they hold: twice what a handler of package webhook keeps.
	maxLaterBytes = 64 << 20
)

// later are the functions that were put off, and losses that are still to be counted.
type later struct {
	mu      sync.Mutex // held for a moment only: never while a function runs, nor for the link
	waiting deque[putOff]
	bytes   int                // held by those that wait and the one that runs
	lost    [len(kinds)]uint64 // not yet among the losses of the link
	running bool               // there is a goroutine for them, or will be
	rested  time.Time          // when it has ended
	ended   bool               // no more are taken
}

type putOff struct {
	f     func() // nil: there are losses to count alone
	bytes int
	mark  bool // it makes no record, and tells flushLater that all before it has run
}

// Later runs f within some 10 ms, on a goroutine of the client and behind every earlier f. So the
// decision need not wait for its record to be made. It never waits. False says that f, which holds
// so many bytes, has no room, or that Close was called. f does not run then: call Lose to count the
// lost records. Flush and Close wait for f. As long as f runs, those behind it wait.
func (c *Client) Later(bytes int, f func()) bool {
	if c == nil {
		return true
	}
	l := &c.later
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.waiting.len() >= maxLater || l.bytes+bytes > maxLaterBytes {
		return false
	}
	c.putOffLocked(putOff{f: f, bytes: bytes})
	return true
}

// Lose counts n records of decision d that could not be made, as if TryLog had found no
// room for them. It never waits.
func (c *Client) Lose(d decision.Decision, n int) {
	if c == nil || n <= 0 {
		return
	}
	c.later.mu.Lock()
	defer c.later.mu.Unlock()
	c.later.lost[kindOf(d)] += uint64(n)
	c.runLocked()
}

func (c *Client) putOffLocked(p putOff) {
	c.later.waiting.pushBack(p)
	c.later.bytes += p.bytes
	c.runLocked()
}

func (c *Client) runLocked() {
	if c.later.running {
		return
	}
	c.later.running = true
	time.AfterFunc(laterPause-time.Since(c.later.rested), c.runLater)
}

// runLater runs what was put off, and counts losses, until there is no more.
func (c *Client) runLater() {
	done := 0
	for {
		c.countLost()
		p, ok := c.later.next(done)
		if !ok {
			return
		}
		if p.f != nil {
			p.f()
		}
		done = p.bytes
	}
}

// next returns what is to be run, when what held so many bytes was. It is false when
// there is nothing left to do.
func (l *later) next(done int) (p putOff, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= done
	switch {
	case l.waiting.len() > 0:
		return l.waiting.popFront(), true
	case l.lost != [len(kinds)]uint64{}: // since they were counted
		return putOff{}, true
	}
	l.running, l.rested = false, time.Now()
	return putOff{}, false
}

// countLost makes the link count what Lose was told. The lock of the link comes first:
// Lose must not wait for it.
func (c *Client) countLost() {
	k := c.link
	k.mu.Lock()
	defer k.mu.Unlock()
	c.later.mu.Lock()
	lost := c.later.lost
	c.later.lost = [len(kinds)]uint64{}
	c.later.mu.Unlock()
	for i, n := range lost {
		if n > 0 {
			k.loseLocked(kind(i), lostFull, n)
		}
	}
}

// flushLater waits until all that was put off before has run.
func (c *Client) flushLater(ctx context.Context) error {
	mark := make(chan struct{})
	c.later.mu.Lock()
	if !c.later.running {
		c.later.mu.Unlock()
		return nil
	}
	c.putOffLocked(putOff{f: func() { close(mark) }, mark: true})
	c.later.mu.Unlock()
	select {
	case <-mark:
		return nil
	case <-ctx.Done():
		return ending(ctx)
	}
}

// endLater waits until all that was put off has run, and takes no more. What has not
// begun when ctx is done never will, and is lost. It returns how many records are still to
// be made then, one for each function and for the one that runs.
func (c *Client) endLater(ctx context.Context) (left int, err error) {
	l := &c.later
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	if err = c.flushLater(ctx); err == nil {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.waiting.len() > 0 {
		if p := l.waiting.popFront(); p.mark {
			p.f()
		} else {
			l.lost[unspecified]++
			left++
		}
	}
	if l.running {
		left++
	}
	return left, fmt.Errorf("%d records were not made yet: %w", left, err)
}
