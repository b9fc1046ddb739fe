// Package signal wakes goroutines that wait for a change.
package signal

import "sync"

// Signal wakes everyone who waits, like a condition variable whose wait can be
// combined with a context. The zero value is ready.
//
// Take the channel before looking at the condition: a change after that closes
// it.
type Signal struct {
	mu sync.Mutex
	ch chan struct{} // nil while nobody has asked since the last broadcast
}

// Wait returns a channel that the next Broadcast closes.
func (s *Signal) Wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Broadcast wakes every goroutine that waits.
func (s *Signal) Broadcast() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
