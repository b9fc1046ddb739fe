package watch

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/internal/testlog"
)

func TestMain(m *testing.M) { testleak.Main(m) }

const (
	never = time.Hour   // a poll that no test waits for
	soon  = time.Minute // long enough for a busy machine
	quiet = 300 * time.Millisecond
)

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
	case <-time.After(soon):
		t.Fatalf("%s: got nothing within %v, want C to fire", what, soon)
	}
}

// drain takes what is still on its way, so that the next report is of what follows.
func drain(w *Watcher) {
	for {
		select {
		case <-w.C():
		case <-time.After(quiet):
			return
		}
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
		drain(w)
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
	select {
	case <-w.C():
		t.Fatal("a write: got a report, want none from a directory that was added for its names")
	case <-time.After(quiet):
	}
	if err := w.AddWrites(dir, func(name string) bool { return name == "log" }); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "live.txt"), "x")
	select {
	case <-w.C():
		t.Fatal("a write to another file: got a report, want none")
	case <-time.After(quiet):
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
		drainFast(w)
		write(t, filepath.Join(dir, "a"), "")
		wantFire(t, w, "a file in it")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		wantFire(t, w, "the directory is removed")
		drainFast(w)
	}
}

// drainFast lets the reports that are on their way come, mostly.
func drainFast(w *Watcher) {
	time.Sleep(2 * pause) // the test holds without it, and proves less
	select {
	case <-w.C():
	default:
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
	drain(w)
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
	drain(w)
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
	select {
	case <-w.C():
		t.Fatal("got a report, want none once the directory is removed")
	case <-time.After(quiet):
	}
}

func TestThePollNeedsNoReport(t *testing.T) {
	w := newWatcher(t, 20*time.Millisecond)
	for range 3 {
		wantFire(t, w, "the poll")
	}
}

// TestALimitOfTheSystemIsPolled stands for all limits: EMFILE, ENOSPC, a file system
// without reports.
func TestALimitOfTheSystemIsPolled(t *testing.T) {
	var text testlog.Buffer
	w := New(never, slog.New(slog.NewTextHandler(&text, nil)))
	t.Cleanup(w.Close)
	w.miss("/limited", syscall.ENOSPC)
	w.miss("/limited", syscall.ENOSPC)
	wantFire(t, w, "the poll of a directory that is not watched")
	if n := strings.Count(text.String(), "max_user_watches"); n != 1 {
		t.Fatalf("got %d lines that name the limit, want 1: %s", n, text.String())
	}
	w.Remove("/limited")
	for fired := 0; ; fired++ {
		select {
		case <-w.C():
			if fired > 0 { // one may have been on its way
				t.Fatal("got the quick poll, want it ended with its directory")
			}
		case <-time.After(blindPoll + quiet):
			return
		}
	}
}

// TestABusyFileCostsFewWakes: the pauses bound how often somebody is woken, however
// often a file is written.
func TestABusyFileCostsFewWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan fsnotify.Event)
		w := &Watcher{
			log: slog.New(slog.DiscardHandler), c: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
			notify: &fsnotify.Watcher{Events: events}, ticker: time.NewTicker(never),
			dirs: map[string]func(string) bool{"/logs": func(string) bool { return true }},
		}
		go w.run()
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
