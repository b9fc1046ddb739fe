package segment

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docket-export/docket/internal/disk"
)

type prefetched struct {
	disk.File
	asked []int64
}

func (f *prefetched) Prefetch(off, end int64) { f.asked = append(f.asked, off, end) }

// What was never written is not asked for: the kernel would fill it with zeros.
func TestPrefetchEndsWithTheData(t *testing.T) {
	const end = 2 * HeaderSize
	file, err := disk.OS("").Create(filepath.Join(t.TempDir(), "segment"))
	if err == nil {
		_, err = file.WriteAt(bytes.Repeat([]byte("x"), end), 0)
	}
	if err == nil {
		err = file.Truncate(1 << 20) // reserved
	}
	if err != nil {
		t.Fatal(err)
	}
	f := &prefetched{File: file}
	defer f.Close()
	var reader Reader
	reader.openHeaders(f, 1, HeaderSize, 1<<20)
	reader.openHeaders(f, 1, end, 1<<20) // where nothing is
	if want := []int64{HeaderSize, end}; !slices.Equal(f.asked, want) {
		t.Errorf("asked for %d, want %d", f.asked, want)
	}
}
