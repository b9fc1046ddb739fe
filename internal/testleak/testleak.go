// Package testleak fails tests that leave goroutines behind. It waits for the last of them
// longer than goleak does by itself: half a second is not enough on a busy machine.
package testleak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end.
const patience = 10 * time.Second

// Main runs the tests of a package, for its TestMain, and ends the process.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := find(); err != nil {
			fmt.Fprintf(os.Stderr, "leaked by the tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Check fails t if it leaves goroutines that were not there before. It must come first in
// a test: cleanups run last in, first out, and this one is to look when all is gone.
func Check(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := find(before); err != nil {
			t.Error(err)
		}
	})
}

func find(options ...goleak.Option) error {
	for deadline := time.Now().Add(patience); ; {
		if err := goleak.Find(options...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
