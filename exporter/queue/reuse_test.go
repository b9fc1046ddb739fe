package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// A file whose sync has failed is not used for another segment: what the disk has
// of it is unknown.
func TestFailedFileIsNotUsedAgain(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 64 << 10, FS: fsys})
	c := cursorOf(t, q, "a")
	store(t, q, chunk(strings.Repeat("x", 50<<10))) // too full to be cut to what it uses
	prepared(t, q)
	path := segmentFiles(t, q.opts.Directory)[0]
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	var once sync.Once
	fsys.set(func(op, name string) (err error) {
		if op == "sync" && isSegment(name) {
			once.Do(func() { err = errDisk })
		}
		return err
	})
	store(t, q, chunk("second"))
	drain(t, q, c)
	must(t, c.Ack(2))
	await.Until(t, "the delivered segment is gone", func() bool { _, err := os.Stat(path); return errors.Is(err, fs.ErrNotExist) })
	var s unix.Stat_t
	must(t, unix.Fstat(int(f.Fd()), &s))
	if s.Nlink != 0 {
		t.Errorf("the file has another name now, want it removed: %v", files(t, q.opts.Directory, "*"))
	}
}

// readHookFS calls hook once, before a read of a file that was opened by Open.
type readHookFS struct {
	disk.FS
	hook atomic.Pointer[func()]
}

func (r *readHookFS) Open(name string) (disk.File, error) {
	f, err := r.FS.Open(name)
	return &readHookFile{f, r}, err
}

type readHookFile struct {
	disk.File
	fs *readHookFS
}

func (f *readHookFile) ReadAt(p []byte, off int64) (int, error) {
	if hook := f.fs.hook.Swap(nil); hook != nil {
		(*hook)()
	}
	return f.File.ReadAt(p, off)
}

// DropOldest takes a segment from a sink that is in the midst of reading it. Its
// file is not used again before that sink has closed it: the sink would meet new
// content, and take it for damage.
func TestFileThatIsReadIsNotUsedAgain(t *testing.T) {
	fsys := &readHookFS{FS: disk.OS("")}
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 64 << 10, MaxBytes: 512 << 10, WhenFull: DropOldest, FS: fsys})
	c := cursorOf(t, q, "slow")
	record := func(seq int) string { return fmt.Sprintf("%d:%09000d", seq, 0) }
	seq := 0
	storeOne := func() { seq++; store(t, q, chunk(record(seq))) }
	read := func() {
		t.Helper()
		records, err := c.Next(t.Context(), Limits{Records: 1, Bytes: 1})
		must(t, err)
		if got, want := string(records[0].Data), record(int(records[0].Seq)); got != want {
			t.Fatalf("record %d: got %.20q, want %.20q", records[0].Seq, got, want)
		}
	}
	storeOne()
	read() // opens the segment and reads what there is
	storeOne()
	overrun := func() {
		for range 200 { // more than three times what the queue holds
			storeOne()
		}
	}
	fsys.hook.Store(&overrun)
	for range 3 {
		read()
	}
	if seq < 200 {
		t.Fatal("the cursor did not read the file again: this tests nothing")
	}
	s := q.Stats()
	if a := s.Cursors["slow"]; s.Corrupt != 0 || a.Corrupt != 0 || a.Dropped == 0 {
		t.Errorf("corrupt: got %d, account %+v; want records dropped and none corrupt", s.Corrupt, a)
	}
}

// A file under a name that says so, or without the header of a segment, may hold
// frames of epochs that are given out again. So it goes, whatever else it holds.
func TestFilesOfUnknownEpochsAreNotUsedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		file   string
		damage func(b []byte)
	}{
		"segment that was being begun": {state.BeginPrefix + "3" + disk.NewSuffix, func([]byte) {}},
		"spare with a damaged header":  {state.SparePrefix + "4", func(b []byte) { b[16]++ }},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Options{Directory: t.TempDir(), SegmentBytes: 64 << 10}
			content := make([]byte, opts.SegmentBytes)
			copy(content, encodeHeader(segment.Header{}, segment.Name{FirstSeq: 1, Epoch: 1}))
			test.damage(content)
			path := filepath.Join(opts.Directory, test.file)
			must(t, os.WriteFile(path, content, 0o600))
			f, err := os.Open(path)
			must(t, err)
			defer f.Close()
			q := open(t, opts)
			storeNumbered(t, q, 1, 1, 1)
			var s unix.Stat_t
			must(t, unix.Fstat(int(f.Fd()), &s))
			if s.Nlink != 0 {
				t.Errorf("the file is still there, want it removed: %v", files(t, opts.Directory, "*"))
			}
		})
	}
}

// What holds for a segment holds for a file that is prepared for one.
func TestFailedPreparationIsNotGoneOnWith(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	failed := make(chan struct{})
	var once sync.Once
	fsys.set(func(op, name string) (err error) {
		if op == "sync" && isBegun(name) {
			once.Do(func() { err = errDisk; close(failed) })
		}
		return err
	})
	q := open(t, Options{Directory: t.TempDir(), FS: fsys})
	receive(t, "a failed preparation", failed)
	storeNumbered(t, q, 1, 3, 1)
	fsys.mu.Lock()
	defer fsys.mu.Unlock()
	if fsys.again != 0 {
		t.Errorf("the file was written or synced %d times after its sync had failed", fsys.again)
	}
}
