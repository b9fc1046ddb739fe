package httpsource

import (
	"context"
	"sync"
	"time"

	"github.com/docket-export/docket/internal/fairconn"
)

// What the bodies of a source may have in memory at a time, however many are sent: a
// body needs a place before it is read, and one of the few large ones before more than a
// chunk of it is in memory. The others wait.
const (
	maxSmall = 32
	maxLarge = 4
)

const (
	// placeGrace is what a body that has a place may owe while others wait for one; see
	// fairconn.Conn.Debt. A round trip over the widest networks is shorter.
	placeGrace = 250 * time.Millisecond
	// placeLook is how often those who wait look who owes that much.
	placeLook = 50 * time.Millisecond
)

// places bounds the bodies that are in memory. While some wait, the slowest of those who
// have a place lose their connections. Safe for concurrent use.
type places struct {
	slots chan struct{}

	mu      sync.Mutex
	holders map[*fairconn.Conn]struct{} // guarded by mu
}

func newPlaces(n int) *places {
	return &places{slots: make(chan struct{}, n), holders: make(map[*fairconn.Conn]struct{})}
}

// enter waits for a place for the body that comes on c, which leave gives back. The error
// is the cause of ctx.
func (p *places) enter(ctx context.Context, c *fairconn.Conn) error {
	defer c.Work()() // it waits for docket meanwhile
	tick := time.NewTicker(placeLook)
	defer tick.Stop()
	for {
		select {
		case p.slots <- struct{}{}:
			p.mu.Lock()
			defer p.mu.Unlock()
			p.holders[c] = struct{}{}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			p.evictSlowest()
		}
	}
}

func (p *places) evictSlowest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var slowest *fairconn.Conn
	most := placeGrace
	for c := range p.holders {
		if debt := c.Debt(); debt > most && !c.IsEvicted() {
			slowest, most = c, debt
		}
	}
	if slowest != nil {
		slowest.Evict()
	}
}

// leave gives back the place that c has.
func (p *places) leave(c *fairconn.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.holders, c)
	<-p.slots
}

func (p *places) inUse() int { return len(p.slots) }
