package watch

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/internal/testlog"
)

func TestMain(m *testing.M) { testleak.Main(m) }

const never = time.Hour // a poll that no test waits for

func newWatcher(t *testing.T, poll time.Duration) *Watcher {
	t.Helper()
	w := New(poll, slog.New(slog.DiscardHandler))
	t.Cleanup(w.Close)
	return w
}

func wantFire(t *testing.T, w *Watcher, what string) {
	t.Helper()
	select {
	case <-w.C():
	case <-time.After(await.Left(t)):
		t.Fatalf("%s: got nothing, want C to fire", what)
	}
}

// handled waits until w has taken the reports of everything that was done before: the
// system keeps their order.
func handled(t *testing.T, w *Watcher) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	write(t, path, "")
	var seen atomic.Bool
	if err := w.AddWrites(dir, func(string) bool { seen.Store(true); return false }); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the report of a write", func() bool {
		write(t, path, "x") // again and again, as the system may drop reports
		return seen.Load()
	})
	w.Remove(dir)
}

// drain takes the report of what was done before, if it is not taken, so that the next is
// of what follows. It says whether there was one.
func drain(t *testing.T, w *Watcher) bool {
	t.Helper()
	handled(t, w)
	select {
	case <-w.C():
		return true
	default:
		return false
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestEveryChangeOfNamesIsReported(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	w := newWatcher(t, never)
	if err := w.Add(dir); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"a file is made", func() error { return os.WriteFile(file, nil, 0o600) }},
		{"it is renamed", func() error { return os.Rename(file, file+".1") }},
		{"its permissions change", func() error { return os.Chmod(file+".1", 0o400) }},
		{"it is removed", func() error { return os.Remove(file + ".1") }},
		{"a directory is made", func() error { return os.Mkdir(file, 0o700) }},
		{"a symbolic link is made", func() error { return os.Symlink("a", file+".link") }},
		{"the directory is removed", func() error { return os.RemoveAll(dir) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatal(err)
		}
		wantFire(t, w, s.name)
		drain(t, w)
	}
}

func TestWritesAreReportedOnlyWhereWanted(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"live.txt", "log"} {
		write(t, filepath.Join(dir, name), "")
	}
	w := newWatcher(t, never)
	if err := w.Add(dir); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "live.txt"), "x")
	if drain(t, w) {
		t.Fatal("a write: got a report, want none from a directory that was added for its names")
	}
	if err := w.AddWrites(dir, func(name string) bool { return name == "log" }); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "live.txt"), "x")
	if drain(t, w) {
		t.Fatal("a write to another file: got a report, want none")
	}
	write(t, filepath.Join(dir, "log"), "x")
	wantFire(t, w, "a write to a file that is wanted")
}

func TestADirectoryMadeAgainIsWatchedAgain(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "d")
	w := newWatcher(t, never)
	if err := w.Add(parent); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("add a directory that is missing: got %v, want that it does not exist", err)
	}
	for range 20 {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		wantFire(t, w, "the directory is made")
		if err := w.Add(dir); err != nil {
			t.Fatal(err)
		}
		drain(t, w)
		write(t, filepath.Join(dir, "a"), "")
		wantFire(t, w, "a file in it")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		wantFire(t, w, "the directory is removed")
		drain(t, w)
	}
}

func TestAMovedDirectoryIsReportedAndItsSuccessorWatched(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWatcher(t, never)
	if err := w.Add(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	wantFire(t, w, "the directory is moved")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(dir); err != nil {
		t.Fatal(err)
	}
	drain(t, w)
	write(t, filepath.Join(dir, "a"), "")
	wantFire(t, w, "a file in its successor")
}

// TestDirectoriesThatComeAndGoWhileAdded: a directory that is moved and removed before
// its report is read makes the library report an error, and wait until it is taken.
func TestDirectoriesThatComeAndGoWhileAdded(t *testing.T) {
	parent := t.TempDir()
	dir, moved := filepath.Join(parent, "d"), filepath.Join(parent, "m")
	w := newWatcher(t, never)
	everything := func(string) bool { return true }
	if err := w.AddWrites(parent, everything); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(parent, "written"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 5000 {
		_, err := f.WriteString("x")
		if err := errors.Join(err, os.Mkdir(dir, 0o700), w.AddWrites(dir, everything), os.Rename(dir, moved), os.Remove(moved)); err != nil {
			t.Fatal(err)
		}
	}
	wantFire(t, w, "directories")
	drain(t, w)
	write(t, filepath.Join(parent, "a"), "")
	wantFire(t, w, "a file afterwards")
}

func TestRemoveEndsAWatch(t *testing.T) {
	dir := t.TempDir()
	w := newWatcher(t, never)
	if err := w.Add(dir); err != nil {
		t.Fatal(err)
	}
	w.Remove(dir)
	w.Remove(dir)
	write(t, filepath.Join(dir, "a"), "")
	if drain(t, w) {
		t.Fatal("got a report, want none once the directory is removed")
	}
}

func TestThePollNeedsNoReport(t *testing.T) {
	w := newWatcher(t, 20*time.Millisecond)
	for range 3 {
		wantFire(t, w, "the poll")
	}
}

// inBubble is a watcher that hears of events alone, without the system.
func inBubble(log *slog.Logger, events chan fsnotify.Event) *Watcher {
	w := &Watcher{
		log: log, c: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		notify: &fsnotify.Watcher{Events: events}, poll: never, ticker: time.NewTicker(never),
		dirs: map[string]func(string) bool{"/logs": func(string) bool { return true }}, blind: map[string]bool{},
	}
	go w.run()
	return w
}

// TestALimitOfTheSystemIsPolled stands for all limits: EMFILE, ENOSPC, a file system
// without reports.
func TestALimitOfTheSystemIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text testlog.Buffer
		w := inBubble(slog.New(slog.NewTextHandler(&text, nil)), nil)
		w.miss("/limited", syscall.ENOSPC)
		w.miss("/limited", syscall.ENOSPC)
		for range 3 {
			began := time.Now()
			<-w.C()
			if waited := time.Since(began); waited != blindPoll { // of the bubble's time
				t.Errorf("a directory that is not watched: polled after %v, want %v", waited, blindPoll)
			}
		}
		if n := strings.Count(text.String(), "max_user_watches"); n != 1 {
			t.Errorf("got %d lines that name the limit, want 1: %s", n, text.String())
		}
		w.forget("/limited")
		began := time.Now()
		<-w.C()
		if waited := time.Since(began); waited != never {
			t.Errorf("without that directory: polled after %v, want %v", waited, never)
		}
		close(w.stop)
		<-w.done
	})
}

// TestABusyFileCostsFewWakes: the pauses bound how often somebody is woken, however
// often a file is written.
func TestABusyFileCostsFewWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan fsnotify.Event)
		w := inBubble(slog.New(slog.DiscardHandler), events)
		fired := 0
		const writes = 25_000
		for range writes { // in a second
			select {
			case events <- fsnotify.Event{Name: "/logs/a", Op: fsnotify.Write}:
			default: // the kernel makes one of those that nobody reads
			}
			synctest.Wait()
			select {
			case <-w.C():
				fired++
			default:
			}
			time.Sleep(time.Second / writes)
		}
		close(w.stop)
		<-w.done
		// In each round of a pause and a burst it can fire all through the burst.
		const most = writes / 4
		t.Logf("%d writes, %d wakes", writes, fired)
		if fired == 0 || fired > most {
			t.Errorf("got %d wakes of %d writes, want some and at most %d", fired, writes, most)
		}
	})
}
