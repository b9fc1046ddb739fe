package gatekeepersource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A run that was taken for abandoned, as the clock was set back since the run before, and
// is written after all, is not deleted under the hands of its writer. It is read again.
func TestWrittenAfterAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.DeleteAfterRead, w.restFor = true, time.Hour
	w.intake.Hold()
	live := fileOf(runAt(0))
	place := filepath.Join(w.path, live+".txt")
	lines := auditLines(runAt(0), 2)
	w.put(fileOf(runAt(5))+".log", text(auditLines(runAt(5), 1)))
	w.put(live+".txt", text(lines[:2]))
	old := time.Now().Add(-2 * w.restFor)
	if err := os.Chtimes(place, old, old); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.eventually("claims", func() bool { return countFiles(w, "claims") == 2 })
	f, err := os.OpenFile(place, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w.intake.Release()
	w.awaitRuns(2)
	w.eventually("deletion of the other", func() bool { return len(w.files()) <= 1 })
	w.put("audit-channel/x", "") // one more look
	w.eventually("look", func() bool { return w.source.(*source).Report().Trouble != "" })
	wantTexts(t, w.files(), []string{live + ".txt", "audit-channel/x"})
	if _, err := f.WriteString(text(lines[2:])); err != nil {
		t.Fatal(err)
	}
	w.rename(live+".txt", live+".log")
	if r := w.awaitRuns(3)[2]; r.ID != runAt(0) || !r.Complete || r.Violations != 2 {
		t.Errorf("got %+v, want the whole run", r)
	}
}

// A link in the place of the claims takes no file of Gatekeeper's elsewhere.
func TestPlantedClaimsAreNotFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	outside := t.TempDir()
	if err := os.MkdirAll(w.state, 0o700); err != nil {
		t.Fatal(err)
	}
	claims := filepath.Join(w.state, "claims")
	if err := os.Symlink(outside, claims); err != nil {
		t.Fatal(err)
	}
	w.put(fileOf(runAt(0))+".log", text(auditLines(runAt(0), 1)))
	w.start()
	w.eventually("trouble", func() bool {
		return strings.Contains(w.source.(*source).Report().Trouble, claims+" is a symbolic link")
	})
	if names, err := os.ReadDir(outside); err != nil || len(names) > 0 {
		t.Errorf("where the link leads: got %v, %v", names, err)
	}
	if err := os.Remove(claims); err != nil {
		t.Fatal(err)
	}
	w.awaitRuns(1)
}
