package queue

import "sync"

// signal wakes everyone who waits, like a condition variable whose wait can be
// combined with a context. The zero value is ready.
//
// Take the channel before looking at the condition: a change after that closes
// it.
type signal struct {
	mu sync.Mutex
	ch chan struct{} // nil while nobody has asked since the last broadcast
}

func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) broadcast() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
