// Package fairconn bounds the connections of an HTTP endpoint, and shares them fairly. When
// all places are taken, a new connection gets the place of a peer that keeps docket waiting.
// The table chooses the identity with most places, and among its connections the one that
// docket has waited for longest: for data, or for reading. A peer that sends and reads well,
// or waits for docket, keeps its place.
package fairconn

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// MinRate is how many bytes a second a peer must send, or read of an answer, to owe nothing.
const MinRate = 16 << 10

// readWait is how long a peer may take to read what MinRate allows it a second for.
const readWait = time.Second

// maxCredit is how long a peer may pause that has sent faster before.
const maxCredit = 250 * time.Millisecond

// Table is the places of an endpoint. Safe for concurrent use.
type Table struct {
	most     int
	identify func(net.Conn) string
	turnAway func(net.Conn)

	mu     sync.Mutex
	conns  map[*Conn]struct{} // guarded by mu
	counts map[string]int     // of conns, by identity; guarded by mu
}

// New returns a table with so many places. identify names the peer of a new connection, as
// far as it is known then. The table calls turnAway with each connection that finds no
// place. turnAway must close the connection, and must not block for long.
func New(most int, identify func(net.Conn) string, turnAway func(net.Conn)) *Table {
	return &Table{most: most, identify: identify, turnAway: turnAway, conns: make(map[*Conn]struct{}), counts: make(map[string]int)}
}

// Listen returns l with the connections that have a place.
func (t *Table) Listen(l net.Listener) net.Listener { return listener{l, t} }

type listener struct {
	net.Listener
	table *Table
}

func (l listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: nc, table: l.table, identity: l.table.identify(nc), since: time.Now()}
		if l.table.take(c) {
			return c, nil
		}
		l.table.turnAway(nc)
	}
}

// take gives c a place, if need be that of another.
func (t *Table) take(c *Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.conns) >= t.most {
		victim := t.mostInDebt()
		if victim == nil {
			return false
		}
		victim.evicted = true
		t.remove(victim)
		_ = victim.Conn.Close() // what reads from it ends, and says so
	}
	t.conns[c] = struct{}{}
	t.counts[c.identity]++
	return true
}

// mostInDebt returns the connection that is to make room, nil when each is at work.
// Callers hold mu.
func (t *Table) mostInDebt() (victim *Conn) {
	now := time.Now()
	var most time.Duration
	for c := range t.conns {
		debt := c.debt(now)
		if debt <= 0 {
			continue
		}
		if victim != nil {
			if less := t.counts[c.identity] - t.counts[victim.identity]; less < 0 || less == 0 && debt <= most {
				continue
			}
		}
		victim, most = c, debt
	}
	return victim
}

// remove takes the place of c. Callers hold mu.
func (t *Table) remove(c *Conn) {
	if _, ok := t.conns[c]; !ok {
		return
	}
	delete(t.conns, c)
	if t.counts[c.identity]--; t.counts[c.identity] == 0 {
		delete(t.counts, c.identity)
	}
}

// Len is the number of places that are taken.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.conns)
}

// Conn is a connection with a place.
type Conn struct {
	net.Conn
	table *Table

	// The rest is guarded by table.mu.
	identity string
	working  bool          // docket is to do something
	owes     time.Duration // of the request that is under way, up to since
	since    time.Time     // when the wait for more began; zero: nobody waits
	writing  time.Time     // when the write under way began, of MinRate bytes at most; zero: none is
	evicted  bool
}

// debt is how much longer docket has waited for the peer than one takes that sends
// MinRate, or that reads as much; 0 while it is docket's turn. Callers hold mu of the table.
func (c *Conn) debt(now time.Time) time.Duration {
	if c.working && !c.writing.IsZero() {
		return max(0, now.Sub(c.writing)-readWait)
	}
	if c.working {
		return 0
	}
	if c.since.IsZero() {
		return c.owes
	}
	return c.owes + now.Sub(c.since)
}

func (c *Conn) Read(p []byte) (int, error) {
	c.update(func() {
		if c.since.IsZero() {
			c.since = time.Now()
		}
	})
	n, err := c.Conn.Read(p)
	c.update(func() {
		earned := time.Duration(n) * time.Second / MinRate
		c.owes = max(c.owes+time.Since(c.since)-earned, -maxCredit)
		c.since = time.Time{}
	})
	return n, err
}

// Write implements io.Writer. It shows how fast the peer reads.
func (c *Conn) Write(p []byte) (n int, err error) {
	defer c.update(func() { c.writing = time.Time{} })
	for {
		c.update(func() { c.writing = time.Now() })
		some, err := c.Conn.Write(p[n:min(len(p), n+MinRate)])
		if n += some; err != nil || n == len(p) {
			return n, err
		}
	}
}

// Close gives the place back.
func (c *Conn) Close() error {
	c.update(func() { c.table.remove(c) })
	return c.Conn.Close()
}

func (c *Conn) update(change func()) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	change()
}

// Identify sets the identity of the peer, once it is known.
func (c *Conn) Identify(identity string) {
	c.update(func() {
		if _, ok := c.table.conns[c]; ok && identity != c.identity {
			c.table.remove(c)
			c.identity = identity
			c.table.conns[c] = struct{}{}
			c.table.counts[identity]++
		}
	})
}

// Work says that docket works until done is called. Meanwhile the peer owes nothing.
func (c *Conn) Work() (done func()) {
	c.update(func() { c.working = true })
	return func() { c.update(func() { c.working = false }) }
}

// Rest says that a request is answered. The debt of the peer starts again from here.
func (c *Conn) Rest() {
	c.update(func() { c.owes, c.since = 0, time.Now() })
}

// Debt returns how long docket has waited in vain during the current request; see Table.
func (c *Conn) Debt() (debt time.Duration) {
	c.update(func() { debt = c.debt(time.Now()) })
	return debt
}

// Evict closes the connection to give its place to others.
func (c *Conn) Evict() {
	c.update(func() { c.evicted = true })
	_ = c.Close() // what reads from it ends, and says so
}

// IsEvicted reports whether the connection was closed for another.
func (c *Conn) IsEvicted() (is bool) {
	c.update(func() { is = c.evicted })
	return is
}

type contextKey struct{}

// Context is http.Server.ConnContext, so that [Of] finds the connection of a request.
func Context(ctx context.Context, nc net.Conn) context.Context {
	if secured, ok := nc.(*tls.Conn); ok {
		nc = secured.NetConn()
	}
	return context.WithValue(ctx, contextKey{}, nc)
}

// Of returns the connection that r came on. The server must have Context as its
// ConnContext, and a listener of a Table.
func Of(r *http.Request) *Conn {
	c, _ := r.Context().Value(contextKey{}).(*Conn)
	return c
}

// Handler is for requests whose answers cost docket more than their bodies. Their
// connections keep their places while docket works.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := Of(r)
		defer c.Rest()
		defer c.Work()()
		next.ServeHTTP(w, r)
	})
}
