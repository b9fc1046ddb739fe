package queue

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// namesFS knows which files have been renamed since their directory was synced:
// after a power cut they may have the old name again.
type namesFS struct {
	disk.FS
	t *testing.T

	mu     sync.Mutex
	files  map[string]*namedFile
	reused int // spares that became something else
}

type namedFile struct{ unsynced bool } // guarded by namesFS.mu

func (n *namesFS) file(name string) *namedFile {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.files[name] == nil {
		n.files[name] = &namedFile{}
	}
	return n.files[name]
}

func (n *namesFS) Create(name string) (disk.File, error) {
	f, err := n.FS.Create(name)
	return &writeWatch{f, name, n, n.file(name)}, err
}

func (n *namesFS) Open(name string) (disk.File, error) {
	f, err := n.FS.Open(name)
	return &writeWatch{f, name, n, n.file(name)}, err
}

func (n *namesFS) Rename(from, to string) error {
	f := n.file(from)
	n.mu.Lock()
	defer n.mu.Unlock()
	f.unsynced = true
	n.files[to] = f
	delete(n.files, from)
	if strings.Contains(from, state.SparePrefix) {
		n.reused++
	}
	return n.FS.Rename(from, to)
}

func (n *namesFS) Remove(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.files, name)
	return n.FS.Remove(name)
}

// SyncDir holds mu, so that no rename comes in between and is taken for synced.
func (n *namesFS) SyncDir(dir string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.FS.SyncDir(dir)
	for _, f := range n.files {
		f.unsynced = f.unsynced && err != nil
	}
	return err
}

type writeWatch struct {
	disk.File
	opened string
	fs     *namesFS
	file   *namedFile
}

func (w *writeWatch) WriteAt(p []byte, off int64) (int, error) {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	if w.file.unsynced {
		w.fs.t.Errorf("%s was written to before its present name was durable: a power cut would show the new content under the old name", w.opened)
	}
	return w.File.WriteAt(p, off)
}

// What a file holds is told by its name: whether its frames count, and which
// epochs it may have. So the name comes first.
func TestNoFileIsWrittenToBeforeItsNameIsDurable(t *testing.T) {
	fsys := &namesFS{FS: disk.OS(""), t: t, files: map[string]*namedFile{}}
	opts := Options{Directory: t.TempDir(), SegmentBytes: 64 << 10, FS: fsys}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	for next := 1; ; {
		next = fillSegment(t, q, next)
		drain(t, q, c)
		must(t, c.Ack(q.LastSeq()))
		await.Until(t, "delivered segments are gone", func() bool { return len(*q.segments.Load()) == 1 })
		fsys.mu.Lock()
		reused := fsys.reused
		fsys.mu.Unlock()
		if reused >= 5 {
			return
		}
	}
}

// Between the renaming of a spare and the first write to it, other syncs of the
// directory come by chance. Here there are none.
func TestSpareIsWrittenToUnderItsNewName(t *testing.T) {
	dir := t.TempDir()
	fsys := &namesFS{FS: disk.OS(""), t: t, files: map[string]*namedFile{}}
	s := &segmentPool{fsys: fsys, dir: dir, size: 64 << 10}
	const spare = state.SparePrefix + "7"
	must(t, os.WriteFile(filepath.Join(dir, spare), make([]byte, s.size), 0o600))
	s.found([]string{spare}, 7)
	f, err := s.get(segment.HeaderSize)
	must(t, err)
	defer f.Close()
	if fsys.reused != 1 {
		t.Fatalf("got %s, want the spare under a new name", f.name)
	}
	must(t, segment.WriteHeader(f, segment.Header{}, segment.Name{FirstSeq: 1, Epoch: 1}))
}
