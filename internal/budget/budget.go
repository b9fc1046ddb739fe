// Package budget shares a bounded amount of memory among connections, so that what they
// take together has a ceiling however many there are and whatever they send.
//
// A connection that waits for memory stops reading: its peer notices nothing else. No
// connection waits forever. Memory held for a line that a peer has begun is reclaimed after
// a time, and at once if the peer's identity holds more than its share while another waits.
// Among the waiting connections, the identity that holds least comes first.
package budget

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// LineTimeout is how long a peer may take to end a line that holds memory, without the
	// time in which docket waits for itself and reads nothing. The longest line there may be,
	// of 16 MiB, needs 5 Mbit/s.
	LineTimeout = 30 * time.Second
	// grace is how long it may take while a more modest identity waits for memory.
	grace = time.Second
	// look is how often somebody who waits looks for what can be taken back.
	look = 250 * time.Millisecond
)

// Bytes is a good limit for lines of at most maxRecordBytes: many short ones at a time,
// or a few of the longest.
func Bytes(maxRecordBytes int) int64 {
	const least, room = 6 << 20, 64 << 10
	return max(least, 4*(int64(maxRecordBytes)+room))
}

// Budget is the memory that holders share. Safe for concurrent use.
type Budget struct {
	limit              int64
	lineTimeout, grace time.Duration // as the constants, but in tests

	mu   sync.Mutex
	used int64 // guarded by mu
	// finisher alone may have what is beyond half of the limit: many who have begun, and
	// each wait for a little more, would wait for each other. nil: nobody needs it.
	// Guarded by mu.
	finisher *Holder
	shares   map[string]*share // by identity, of those with holders or waiters; guarded by mu
}

// share is what one identity has of the budget.
type share struct {
	bytes   int64
	holders map[*Holder]struct{} // with bytes
	waiters []*waiter            // in their order
}

type waiter struct {
	holder *Holder
	bytes  int64
	ready  chan struct{} // closed when it has them
}

// New returns a budget of limit bytes. No holder may have more than half of it at a time.
func New(limit int64) *Budget {
	return &Budget{limit: limit, lineTimeout: LineTimeout, grace: grace, shares: make(map[string]*share)}
}

// InUse is how many bytes are held.
func (b *Budget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Expire dismisses every holder that waits for its peer, as if the line timeout had passed.
func (b *Budget) Expire() {
	b.mu.Lock()
	var all []*Holder
	for _, s := range b.shares {
		for h := range s.holders {
			if h.awaits.Load() {
				all = append(all, h)
			}
		}
	}
	b.mu.Unlock()
	for _, h := range all {
		h.end()
	}
}

// Holder is the part of one connection. Calls of its methods must not overlap; the budget
// may use the holder at any time.
type Holder struct {
	budget   *Budget
	identity string
	dismiss  func()
	awaits   atomic.Bool // its peer is to send more
	lost     atomic.Bool // dismiss was called
	// since is when its peer began the line that it holds bytes for, or when it began to
	// hold, in nanoseconds. It is later by what docket has taken for itself.
	since  atomic.Int64
	paused int64 // when docket began to wait for itself; the caller's

	bytes int64       // guarded by mu of the budget
	timer *time.Timer // of the line timeout; guarded by mu of the budget
}

// Holder returns a holder without bytes for a connection of identity. The budget calls
// dismiss to get bytes back when the peer has taken too long to end a line. dismiss must not
// block, and must lead to Give. A dismissed holder must not be used again.
func (b *Budget) Holder(identity string, dismiss func()) *Holder {
	return &Holder{budget: b, identity: identity, dismiss: dismiss}
}

// Await says whether the holder waits for its peer, rather than for docket itself. A peer that is
// not read from, as the queue is full, has the rest of its time afterwards.
func (h *Holder) Await(peer bool) {
	now := time.Now().UnixNano()
	switch {
	case !peer:
		h.paused = now
	case !h.awaits.Load():
		since := h.since.Load()
		h.since.Store(since + now - max(since, h.paused))
	}
	h.awaits.Store(peer)
}

// Renew says that the peer has ended a line: the timeout of the next line starts.
func (h *Holder) Renew() { h.since.Store(time.Now().UnixNano()) }

// age is how long the peer has been at its line.
func (h *Holder) age() time.Duration { return time.Duration(time.Now().UnixNano() - h.since.Load()) }

// Try takes n more bytes if there are plenty, and reports whether it did. It uses at most
// half of the budget, shared evenly among identities. The other half is for Take.
func (h *Holder) Try(n int) bool {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.share(h.identity)
	plenty := b.used+int64(n) <= b.limit/2 && s.bytes+int64(n) <= b.limit/2/int64(len(b.shares))
	for _, other := range b.shares {
		plenty = plenty && len(other.waiters) == 0
	}
	if plenty {
		b.give(h, s, int64(n))
	} else {
		b.forget(h.identity)
	}
	return plenty
}

// Take takes n more bytes, and waits until they are available. It fails only with the cause
// of ctx.
func (h *Holder) Take(ctx context.Context, n int) error {
	h.Await(true) // a line that waits for memory holds some, and may have to give it back
	defer h.Await(false)
	b := h.budget
	b.mu.Lock()
	w := &waiter{holder: h, bytes: int64(n), ready: make(chan struct{})}
	s := b.share(h.identity)
	s.waiters = append(s.waiters, w)
	b.grant()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	default:
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-w.ready:
			return nil
		case <-tick.C:
			b.takeBack(h, int64(n))
		case <-ctx.Done():
			b.leave(w)
			return context.Cause(ctx)
		}
	}
}

// Give gives n bytes back.
func (h *Holder) Give(n int) {
	if n == 0 {
		return
	}
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.share(h.identity)
	h.bytes -= int64(n)
	s.bytes -= int64(n)
	b.used -= int64(n)
	if h.bytes == 0 {
		delete(s.holders, h)
		h.timer.Stop()
	}
	if b.used <= b.limit/2 || h == b.finisher && h.bytes == 0 {
		b.finisher = nil
	}
	b.forget(h.identity)
	b.grant()
}

// give takes bytes for h. b.mu must be held.
func (b *Budget) give(h *Holder, s *share, n int64) {
	if h.bytes == 0 {
		s.holders[h] = struct{}{}
		h.Renew()
		h.timer = time.AfterFunc(b.lineTimeout, h.expire)
	}
	h.bytes += n
	s.bytes += n
	b.used += n
}

// expire dismisses a holder whose peer has had its time. One that waits for docket
// itself has more of it.
func (h *Holder) expire() {
	b := h.budget
	b.mu.Lock()
	left := b.lineTimeout - h.age()
	over := h.bytes > 0 && left <= 0 && h.awaits.Load()
	if h.bytes > 0 && !over {
		h.timer.Reset(max(left, b.grace))
	}
	b.mu.Unlock()
	if over {
		h.end()
	}
}

// end dismisses the holder, once.
func (h *Holder) end() {
	if !h.lost.Swap(true) {
		h.dismiss()
	}
}

// share returns that of an identity. b.mu must be held.
func (b *Budget) share(identity string) *share {
	s := b.shares[identity]
	if s == nil {
		s = &share{holders: make(map[*Holder]struct{})}
		b.shares[identity] = s
	}
	return s
}

// forget lets go of an identity without holders and waiters. b.mu must be held.
func (b *Budget) forget(identity string) {
	if s := b.shares[identity]; s != nil && s.bytes == 0 && len(s.waiters) == 0 {
		delete(b.shares, identity)
	}
}

// grant gives those who wait what there is: the finisher first, and then the identity
// that holds least. b.mu must be held.
func (b *Budget) grant() {
	for {
		w := b.next()
		if w == nil || !b.admits(w) {
			return
		}
		b.remove(w)
		b.give(w.holder, b.share(w.holder.identity), w.bytes)
		close(w.ready)
	}
}

// next is who is to have memory first, nil if nobody waits. b.mu must be held.
func (b *Budget) next() *waiter {
	var least *share
	for _, s := range b.shares {
		if len(s.waiters) > 0 && (least == nil || s.bytes < least.bytes) {
			least = s
		}
	}
	if least == nil {
		return nil
	}
	if b.finisher != nil {
		for _, w := range b.share(b.finisher.identity).waiters {
			if w.holder == b.finisher {
				return w
			}
		}
	}
	return least.waiters[0]
}

// remove ends the waiting of w, and reports whether it did wait. b.mu must be held.
func (b *Budget) remove(w *waiter) bool {
	s := b.share(w.holder.identity)
	i := slices.Index(s.waiters, w)
	if i >= 0 {
		s.waiters = slices.Delete(s.waiters, i, i+1)
	}
	return i >= 0
}

// admits reports whether there is enough for w, which it makes the finisher if there is
// none and w needs to be. b.mu must be held.
func (b *Budget) admits(w *waiter) bool {
	if b.used+w.bytes > b.limit {
		return false
	}
	if b.finisher == nil && b.used+w.bytes > b.limit/2 {
		b.finisher = w.holder
	}
	return b.finisher == w.holder || b.others()+w.bytes <= b.limit/2
}

// others is what all but the finisher hold. b.mu must be held.
func (b *Budget) others() int64 {
	if b.finisher == nil {
		return b.used
	}
	return b.used - b.finisher.bytes
}

// leave ends the waiting of w, and gives back memory that w was granted at this moment.
func (b *Budget) leave(w *waiter) {
	b.mu.Lock()
	waited := b.remove(w)
	if waited {
		b.forget(w.holder.identity)
		b.grant()
	}
	b.mu.Unlock()
	if !waited {
		w.holder.Give(int(w.bytes))
	}
}

// takeBack dismisses the holder that has waited longest for its peer, of the identity
// that holds most, if that is more than h would hold with n more bytes.
func (b *Budget) takeBack(h *Holder, n int64) {
	if victim := b.slowest(h, n); victim != nil {
		victim.end()
	}
}

func (b *Budget) slowest(h *Holder, n int64) (victim *Holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var most *share
	for identity, s := range b.shares {
		if identity != h.identity && (most == nil || s.bytes > most.bytes) {
			most = s
		}
	}
	if most == nil || most.bytes <= b.share(h.identity).bytes+n {
		return nil
	}
	for o := range most.holders {
		if o.awaits.Load() && !o.lost.Load() && o.age() >= b.grace && (victim == nil || o.age() > victim.age()) {
			victim = o
		}
	}
	return victim
}
