package queue

import (
	"errors"
	"testing"

	"github.com/docket-export/docket/internal/disk"
)

// noReserveFS cannot reserve space.
type noReserveFS struct{ disk.FS }

func (f noReserveFS) Create(name string) (disk.File, error) {
	file, err := f.FS.Create(name)
	return noReserveFile{file}, err
}

type noReserveFile struct{ disk.File }

func (noReserveFile) Allocate(int64) error { return errors.ErrUnsupported }

// Where space cannot be reserved, segments grow as they are written.
func TestDiskThatCannotReserve(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 8 << 10, FS: noReserveFS{disk.OS("")}}
	q := open(t, opts)
	storeNumbered(t, q, 1, 300, 1)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), numbered(1, 300))
	closeQueue(t, q)
	q = open(t, opts)
	equal(t, "after a restart", drain(t, q, cursorOf(t, q, "b")), numbered(1, 300))
}
