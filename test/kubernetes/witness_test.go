package kubernetes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/test/kubetest"
)

// look is how often the witness looks. A file that Gatekeeper writes stays for longer
// than an audit takes.
const look = 5 * time.Millisecond

// witness keeps every file of a disk export by a hard link to it, from its creation
// on, whoever deletes it.
type witness struct {
	directory string // of the channel
	links     string // directory of the links, each named by an inode
	quit      chan struct{}
	done      sync.WaitGroup

	mu    sync.Mutex
	files []*file // in order of appearance; guarded by mu
	err   error   // guarded by mu
}

// file is one file of the export.
type file struct {
	inode uint64
	name  string    // as it was last seen: "2026-01-05T10_04_00Z.log"
	gone  time.Time // when it was no longer in the directory; zero while it is
}

// watch starts a witness of an export, which need not be there. It has what is there now,
// and ends with the test.
func watch(t *testing.T, export string) *witness {
	t.Helper()
	w := &witness{directory: filepath.Join(export, kubetest.AuditChannel), links: filepath.Join(filepath.Dir(export), "witness"), quit: make(chan struct{})}
	if err := os.Mkdir(w.links, 0o755); err != nil {
		t.Fatal(err)
	}
	w.look()
	w.done.Go(func() {
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		for {
			select {
			case <-w.quit:
				return
			case <-ticker.C:
				w.look()
			}
		}
	})
	t.Cleanup(func() { close(w.quit); w.done.Wait() })
	return w
}

// look takes up what has changed in the directory.
func (w *witness) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	entries, err := os.ReadDir(w.directory)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && w.err == nil { // it is made for the first audit
			w.err = err
		}
		return
	}
	now := time.Now()
	there := make(map[uint64]string)
	for _, entry := range entries {
		// A file that is renamed or deleted meanwhile is met again, or is gone.
		info, err := entry.Info()
		if err != nil {
			continue
		}
		inode := info.Sys().(*syscall.Stat_t).Ino
		err = os.Link(filepath.Join(w.directory, entry.Name()), filepath.Join(w.links, fmt.Sprint(inode)))
		switch {
		case err == nil:
			w.files = append(w.files, &file{inode: inode, name: entry.Name()})
			there[inode] = entry.Name()
		case errors.Is(err, fs.ErrExist):
			there[inode] = entry.Name()
		}
	}
	for _, f := range w.files {
		if name, ok := there[f.inode]; ok {
			f.name, f.gone = name, time.Time{} // while it was renamed it seemed to be gone
		} else if f.gone.IsZero() {
			f.gone = now
		}
	}
}

// run is what Gatekeeper wrote about one audit.
type run struct {
	file
	id       string
	lines    []string // whole lines
	finished bool     // by Gatekeeper: its last name says so
}

// violations is how many of the lines are violations.
func (r run) violations() int {
	n := 0
	for _, line := range r.lines {
		if strings.Contains(line, `"eventType":"violation_audited"`) {
			n++
		}
	}
	return n
}

// runs returns every run that was begun so far, in order.
func (w *witness) runs(t *testing.T) []run {
	t.Helper()
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		t.Fatalf("watch the export: %v", w.err)
	}
	var all []run
	for _, f := range w.files {
		r := run{file: *f, lines: wholeLines(t, filepath.Join(w.links, fmt.Sprint(f.inode)))}
		stem, suffix, _ := strings.Cut(r.name, ".")
		r.id, r.finished = strings.ReplaceAll(stem, "_", ":"), suffix == "log"
		all = append(all, r)
	}
	return all
}

// finished returns how many runs are finished.
func (w *witness) finished(t *testing.T) int {
	t.Helper()
	n := 0
	for _, r := range w.runs(t) {
		if r.finished {
			n++
		}
	}
	return n
}

// awaitFinished waits until n runs more are finished.
func (w *witness) awaitFinished(t *testing.T, n int) {
	t.Helper()
	before := w.finished(t)
	await(t, "audits to be finished", func() error {
		if got := w.finished(t) - before; got < n {
			return fmt.Errorf("%d are, want %d", got, n)
		}
		return nil
	})
}
