package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// restingFiles are the files of a queue at rest. They share its lock for the length of each
// read, and hold no file open in between: an exporter can start at any time. What is read
// belongs to the segment that was asked for, since no other ever has its name.
type restingFiles struct {
	disk.FS
	dir string
}

// errBegun says that an exporter works on a queue that was opened to look.
var errBegun = errors.New("docket has started on this queue: run the command again")

// Open implements disk.FS.
func (r restingFiles) Open(path string) (disk.File, error) {
	f := &restingFile{from: r, path: path}
	err := f.with(func(file disk.File) (err error) {
		f.size, err = file.Size()
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// restingFile is a file to read.
type restingFile struct {
	disk.File // nil: the rest of it is never asked for
	from      restingFiles
	path      string
	size      int64
}

// with calls read with the file while nobody works on the queue.
func (f *restingFile) with(read func(disk.File) error) error {
	shared, err := state.Share(f.from.FS, f.from.dir)
	if _, ok := errors.AsType[*state.InUseError](err); ok {
		return fmt.Errorf("queue %s: %w", f.from.dir, errBegun)
	}
	if err != nil {
		return err
	}
	defer func() { _ = shared.Close() }() // which cannot fail
	file, err := f.from.OpenRead(f.path)
	if _, isSegment := segment.ParseName(filepath.Base(f.path)); isSegment && errors.Is(err, fs.ErrNotExist) {
		return segment.ErrGone
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return read(file)
}

// ReadAt implements io.ReaderAt.
func (f *restingFile) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.with(func(file disk.File) (err error) {
		n, err = file.ReadAt(b, off)
		return err
	})
	return n, err
}

// Data implements disk.File.
func (f *restingFile) Data(off int64) (from, to int64, err error) {
	err = f.with(func(file disk.File) (err error) {
		from, to, err = file.Data(off)
		return err
	})
	return from, to, err
}

// Size implements disk.File.
func (f *restingFile) Size() (int64, error) { return f.size, nil }

// Prefetch implements disk.File.
func (f *restingFile) Prefetch(int64, int64) {}

// Close implements io.Closer.
func (f *restingFile) Close() error { return nil }
