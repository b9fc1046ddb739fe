// Package poll waits for what happens in another process and can only be asked
// for.
package poll

import (
	"fmt"
	"time"
)

// interval is short beside what a process or a server needs to change its state,
// and long enough to leave a small machine to them.
const interval = 50 * time.Millisecond

// Until calls ready until it returns nil, and then returns nil. After timeout it
// returns what ready said last. ready must return promptly.
func Until(timeout time.Duration, ready func() error) error {
	return Every(interval, timeout, ready)
}

// Every is Until that asks once an interval, where to ask is work.
func Every(interval, timeout time.Duration, ready func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for deadline := time.Now().Add(timeout); ; <-ticker.C {
		err := ready()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not after %v: %w", timeout, err)
		}
	}
}
