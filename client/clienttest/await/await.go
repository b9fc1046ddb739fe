// Package await is how the tests of every module here wait for another goroutine, process or
// server: without a limit of their own. A wait ends with the test's deadline (go test
// -timeout), so that a slow machine fails no test. A test in a bubble of testing/synctest needs
// none of this: there a wait without an end is found as a deadlock.
package await

import (
	"testing"
	"time"
)

const (
	// margin is what a test keeps of its deadline to say what it waited for and to clean up.
	margin = 20 * time.Second
	// unlimited serves for go test -timeout 0.
	unlimited = time.Hour
	// pause lets what is waited for have the processor.
	pause = 10 * time.Millisecond
)

// Left returns how long t may still wait: until shortly before its deadline, at least a
// second. It is for contexts and for deadlines of connections.
func Left(t testing.TB) time.Duration {
	left := unlimited
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if at, limited := d.Deadline(); limited {
			left = time.Until(at) - margin
		}
	}
	return max(left, time.Second)
}

// Until polls ok until it holds. It ends t when no time is left, and says what it waited for.
// It must be called from the goroutine of t.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Left(t)); !ok(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("no time is left to wait for %s", what)
		}
	}
}
