package gatekeepersource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
)

// What was seen last before a stop, and could only be held open, is known to be lost
// when it is gone at the next start.
func TestSeenAtTheStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stopWait = time.Second / 10
	w.intake.Hold()
	w.put(fileOf(runAt(0))+".log", text(auditLines(runAt(0), 1)))
	w.start()
	w.eventually("pending lines", func() bool { return w.intake.Pending() == 4 })
	w.eventually("state", func() bool { _, err := os.Stat(w.statePath()); return err == nil })
	w.put(fileOf(runAt(1))+".txt", text(auditLines(runAt(1), 1)[:2]))
	w.stop() // which is cut off: the queue takes nothing
	w.remove(fileOf(runAt(1)) + ".txt")
	w.newIntake()
	w.start()
	if r := w.awaitRuns(2)[1]; r.ID != runAt(1) || r.Reason != decision.Vanished {
		t.Errorf("got %+v, want the run that was seen at the stop reported as vanished", r)
	}
}

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
