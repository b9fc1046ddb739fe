package gatekeepersource

import (
	"context"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/gatekeepersource/inventory"
)

// oneEach is an inventory that gives one file to each Run of a reader, however lately it
// was postponed.
type oneEach struct {
	*inventory.Inventory
	given bool
}

func (o *oneEach) Next(now time.Time) (inventory.File, bool) {
	if o.given = !o.given; !o.given {
		return inventory.File{}, false
	}
	return o.Inventory.Next(now.Add(time.Hour))
}

// byHand is a source that has claimed what is there, and then reads one file at a time.
func (w *world) byHand() (s *source, read func()) {
	w.t.Helper()
	s = w.config.New(sources.Env{
		Name: "gk", MaxRecordBytes: maxRecord, StateDir: disk.At(w.state), Log: slog.New(slog.DiscardHandler),
	}).(*source)
	v, err := inventory.Open(inventory.Options{
		Path: w.path, StateDir: s.env.StateDir, Poll: poll, Failures: s.failures, Gaps: &s.gaps, Log: s.env.Log,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(v.Close)
	looked, cancel := context.WithCancel(w.t.Context())
	cancel()
	v.Watch(looked)
	last := make(chan struct{})
	close(last)
	files := &oneEach{Inventory: v}
	r := s.reader(files, w.intake)
	return s, func() {
		w.t.Helper()
		if err := r.Run(w.t.Context(), last); err != nil {
			w.t.Fatal(err)
		}
	}
}

// The failure of a file ends with the file.
func TestFailureEndsWithTheFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(fileOf(runAt(0))+".log", text(auditLines(runAt(0), 1)))
	src, read := w.byHand()
	claims, err := filepath.Glob(filepath.Join(w.state, "claims", "*"))
	if err != nil || len(claims) != 1 {
		t.Fatalf("got the claims %q, %v, want one", claims, err)
	}
	os.Remove(claims[0])
	if err := unix.Mkfifo(claims[0], 0o600); err != nil {
		t.Fatal(err)
	}
	read()
	if got := src.Report().Trouble; !strings.Contains(got, "is a named pipe") {
		t.Errorf("got the failure %q, want it to say why a file is not read", got)
	}
	os.Remove(claims[0])
	read()
	if got := src.Report().Trouble; got != "" {
		t.Errorf("got the failure %q about a file that is no more, want none", got)
	}
}

// Two channels have runs with the same id, and a channel has one again in another file.
func TestSameRunTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mkdir("other")
	id := runAt(0)
	other := "other/" + path.Base(fileOf(id))
	w.put(fileOf(id)+".log", text(auditLines(id, 2)))
	w.put(other+".log", text(auditLines(id, 3)))
	w.start()
	w.awaitRuns(2)
	w.put(fileOf(id)+".log", text(auditLines(id, 4)))
	found := w.awaitRuns(3)
	total := uint64(0)
	for _, r := range found {
		if !r.Complete {
			t.Errorf("got %+v, want it complete", r)
		}
		total += r.Violations
	}
	if total != 2+3+4 {
		t.Errorf("got %d violations of the three files, want 9", total)
	}
}

// Nothing stays open after thousands of files.
func TestDescriptorsAreClosed(t *testing.T) {
	runs := 400 / few(4)
	w := newWorld(t)
	w.config.DeleteAfterRead = true
	w.start()
	w.put(fileOf(runAt(0))+".log", text(auditLines(runAt(0), 1)))
	w.awaitRuns(1)
	w.eventually("deletion", func() bool { return len(w.files()) == 0 })
	before := countDescriptors(t)
	d := &driver{t: t, dir: filepath.Join(w.path, "audit-channel"), maxResults: runs}
	for n := range runs {
		write, end := d.begin(runAt(n + 1))
		write(violationLine(runAt(n+1), 0))
		end()
	}
	w.eventually("deletion", func() bool { return len(w.files()) == 0 })
	w.awaitIdle()
	w.eventually("descriptors to be closed", func() bool { return countDescriptors(t) <= before })
	w.stop()
	if got := len(w.texts()); got != 4*(runs+1) {
		t.Errorf("got %d lines, want %d", got, 4*(runs+1))
	}
}

func countDescriptors(t *testing.T) int {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

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
