package streamsource

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxLeaving bounds the connections that have lost their seat and are not closed yet.
const maxLeaving = 64

// seats are the connections that there may be at a time. When all are taken, one who
// comes gets the seat that was idle for longest, of the identity that has most of them:
// if that has at least as many afterwards as the one who comes. So the connections of
// one identity never keep out another.
type seats struct {
	most int
	// swap says that one who comes may also take the seat of his own identity.
	swap bool

	mu      sync.Mutex
	taken   map[*seat]struct{} // guarded by mu
	counts  map[string]int     // by identity, of those that are not leaving; guarded by mu
	leaving int                // guarded by mu
}

// seat is the place of a connection.
type seat struct {
	nc       net.Conn // as it was accepted
	identity string
	used     atomic.Int64 // when it last brought a line, or came, in nanoseconds

	leaves bool   // it has lost its place; guarded by mu of the seats
	leave  func() // ends the connection; guarded by mu of the seats
}

func newSeats(most int, swap bool) *seats {
	return &seats{most: most, swap: swap, taken: make(map[*seat]struct{}), counts: make(map[string]int)}
}

// use says that the connection is at work.
func (s *seat) use() { s.used.Store(time.Now().UnixNano()) }

// claim gives nc a seat, or says why it gets none. leave ends the connection, without
// waiting for it, when it loses the seat; see onLeave.
func (t *seats) claim(nc net.Conn, identity string, leave func()) (*seat, error) {
	s := &seat{nc: nc, identity: identity, leave: leave}
	s.use()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.taken)-t.leaving >= t.most && !t.makeRoom(identity) {
		return nil, fault(fmt.Sprintf("too many connections: at most %d at a time", t.most))
	}
	t.taken[s] = struct{}{}
	t.counts[identity]++
	return s, nil
}

// makeRoom takes a seat for identity from another connection, and reports whether it
// has. t.mu must be held.
func (t *seats) makeRoom(identity string) bool {
	greediest := identity
	for other, n := range t.counts {
		if n > t.counts[greediest] {
			greediest = other
		}
	}
	fair := t.counts[greediest] > t.counts[identity]+1 || t.swap
	if t.leaving >= maxLeaving || !fair {
		return false
	}
	var victim *seat
	for s := range t.taken {
		if s.identity == greediest && !s.leaves && (victim == nil || s.used.Load() < victim.used.Load()) {
			victim = s
		}
	}
	if victim == nil {
		return false
	}
	victim.leaves = true
	t.leaving++
	t.uncount(greediest)
	victim.leave()
	return true
}

// shed takes a seat from the identity that has most, if it has several: there is no descriptor
// left for one who comes.
func (t *seats) shed() {
	const nobody = "\x00"
	t.mu.Lock()
	defer t.mu.Unlock()
	t.makeRoom(nobody)
}

// onLeave replaces what ends the connection of s.
func (t *seats) onLeave(s *seat, leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.leave = leave; s.leaves {
		leave()
	}
}

// release takes a seat back: its connection has ended.
func (t *seats) release(s *seat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.taken, s)
	if s.leaves {
		t.leaving--
		return
	}
	t.uncount(s.identity)
}

// uncount takes one from the count of an identity. t.mu must be held.
func (t *seats) uncount(identity string) {
	if t.counts[identity]--; t.counts[identity] == 0 {
		delete(t.counts, identity)
	}
}

// len is the number of connections.
func (t *seats) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.taken)
}

// closeAll closes every connection, whatever it is doing. Below TLS, which would
// still say goodbye, and wait for the peer to take it.
func (t *seats) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.taken {
		s.nc.Close()
	}
}
