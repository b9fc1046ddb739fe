package gatekeepersource

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Of far more files than can be claimed as many are as may be, and what a look costs does
// not grow with the square of their number: a new file could come and go unseen meanwhile.
func TestManyFiles(t *testing.T) {
	const maxClaims = 4096
	files := 30_000 / few(5)
	w := newWorld(t)
	for n := range files {
		name := fmt.Sprintf("admission-%s-%016x.log", time.Date(2026, 11, 21, 8, 0, 0, n, time.UTC).Format(segmentTime), n)
		if err := os.WriteFile(filepath.Join(w.path, "audit-channel", name), fmt.Appendf(nil, "{\"n\":%d}\n", n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.intake.Hold()
	w.start()
	w.eventually("trouble", func() bool { return strings.Contains(w.log.String(), "too many files wait to be read") })
	if got := countFiles(w, "claims"); got != maxClaims {
		t.Errorf("got %d files claimed, want %d", got, maxClaims)
	}
	begun := time.Now()
	w.cancel()
	w.eventually("end of the scanner", func() bool { return !strings.Contains(stacks(), "(*Inventory).Watch") })
	t.Logf("another look at %d files took at most %v", files, time.Since(begun))
	w.crash()
	if lost := w.source.(*source).Report().Lost; lost != 0 {
		t.Errorf("got %d lost, want 0", lost)
	}
}
