package httpsource

import "sync"

// progress is how far the events of a peer are durable. The zero value is ready to use. Safe for
// concurrent use.
type progress struct {
	mu      sync.Mutex
	through uint64        // every event up to this number is durable; guarded by mu
	waiting chan struct{} // closed when through grows; nil when nobody waits; guarded by mu
}

// advance notes that events up to a number are durable. It does not block.
func (p *progress) advance(through uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if through <= p.through {
		return
	}
	p.through = through
	if p.waiting != nil {
		close(p.waiting)
		p.waiting = nil
	}
}

// durable is the number up to which every event is durable.
func (p *progress) durable() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.through
}

// changed returns a channel that is closed when durable grows.
func (p *progress) changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = make(chan struct{})
	}
	return p.waiting
}
