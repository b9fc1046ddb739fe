package gatekeepersource

import (
	"path/filepath"
	"strings"
	"testing"
)

// The exporter calls Run again while the queue fails: a gap counts once.
func TestGapCountsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	d := &driver{t: t, dir: filepath.Join(w.path, "audit-channel"), maxResults: 0}
	_, end := d.begin(runAt(0))
	w.awaitSeen(fileOf(runAt(0)) + ".txt")
	w.stop()
	end() // and it is deleted
	w.intake.Crash()
	for range 3 {
		if err := w.source.Run(t.Context(), w.intake, func() {}); err == nil {
			t.Error("got no error from Run, want that of the intake")
		}
	}
	if lost := w.source.(*source).Report().Lost; lost != 1 {
		t.Errorf("got %d lost, want 1", lost)
	}
	if got := strings.Count(w.log.String(), "a file vanished"); got != 1 {
		t.Errorf("got %d lines in the log about one gap, want 1", got)
	}
}
