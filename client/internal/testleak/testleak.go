// Package testleak fails tests that leave goroutines behind.
package testleak

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// limit only bounds a hang: no test has a deadline when it is reached.
const limit = 5 * time.Minute

// Main runs the tests of a package, for its TestMain, and ends the process.
func Main(m *testing.M) {
	code := m.Run()
	for deadline := time.Now().Add(limit); code == 0 && runtime.NumGoroutine() > 1; {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines left by the tests:\n%s\n", stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
		time.Sleep(time.Millisecond)
	}
	os.Exit(code)
}
