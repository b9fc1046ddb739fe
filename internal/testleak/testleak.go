// Package testleak fails tests that leave goroutines behind.
package testleak

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// limit is how long goroutines may take to end: longer than the slowest machine needs, as
// a leak alone waits for it.
const limit = 5 * time.Minute

// Main runs the tests of a package, for its TestMain, and ends the process.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := wait(nil, limit); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "goroutines left by the tests:\n%s\n", strings.Join(left, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// Check fails t if it leaves goroutines that were not there before. It must come first in
// a test: cleanups run last in, first out, and this one looks after all others.
func Check(t *testing.T) {
	before := make(map[string]bool)
	for _, stack := range others() {
		before[id(stack)] = true
	}
	t.Cleanup(func() {
		if left := wait(before, limit); len(left) > 0 {
			t.Errorf("goroutines left by the test:\n%s", strings.Join(left, "\n\n"))
		}
	})
}

// wait returns the stacks of the goroutines that are not of before and have not ended
// within limit.
func wait(before map[string]bool, limit time.Duration) (left []string) {
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		left = left[:0]
		for _, stack := range others() {
			if !before[id(stack)] {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

// others are the stacks of all goroutines but this one, package testing's, which wait for
// the test, and the one of os/signal, which never ends.
func others() (stacks []string) {
	text := make([]byte, 4<<20)
	text = text[:runtime.Stack(text, true)]
	for i, stack := range strings.Split(string(text), "\n\n") {
		of := func(function string) bool { return strings.Contains(stack, "\n"+function) }
		if i > 0 && !of("testing.(*T).Run(") && !of("testing.(*M).") && !of("os/signal.loop(") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// id is the number of the goroutine of a stack: "goroutine 7".
func id(stack string) string {
	id, _, _ := strings.Cut(stack, " [")
	return id
}
