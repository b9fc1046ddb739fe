//go:build soak

package tailsource

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/sources/tailsource/formats"
)

// TestAFileThatCannotBeReadCostsNothing while it stands in the way of another.
func TestAFileThatCannotBeReadCostsNothing(t *testing.T) {
	b := newBench(t, formats.JSON)
	target := filepath.Join(b.dir, "real.log")
	symlink(t, "/proc/self/mem", b.path) // its first byte is never there
	b.start()
	b.awaitTrouble("cannot read ")
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	symlink(t, target, b.path)
	appendTo(t, target, "{}\n")
	b.awaitHeld(2)
	time.Sleep(2 * b.grace) // until its successor is due
	before := cpu(t)
	const while = time.Second
	time.Sleep(while)
	if used := cpu(t) - before; used > while/20 {
		t.Errorf("got %v of CPU in %v, want next to none", used, while)
	}
}

// TestIdleCostsNothing: a source with nothing to read uses no CPU to speak of.
func TestIdleCostsNothing(t *testing.T) {
	b := newBench(t, formats.JSON)
	b.write("{}\n")
	b.start()
	b.wantStored([]string{"{}"})
	time.Sleep(saveEvery + 200*time.Millisecond) // until the position is saved
	before := cpu(t)
	const while = 3 * time.Second
	time.Sleep(while)
	used := cpu(t) - before
	t.Logf("%v of CPU in %v", used, while)
	if used > while/100 {
		t.Errorf("got %v of CPU in %v without anything to do, want at most 1 %%", used, while)
	}
}

func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
