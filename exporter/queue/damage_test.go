package queue

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// segmentFiles returns the paths of the segments in dir, in order.
func segmentFiles(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	must(t, err)
	slices.Sort(paths)
	return paths
}

// offsets returns where each frame of a segment begins, and where the last ends.
func offsets(t *testing.T, path string) []int64 {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	at := []int64{segment.HeaderSize}
	for {
		from := at[len(at)-1]
		f, err := segment.ParseHeader(b[from:])
		if err != nil {
			return at
		}
		at = append(at, from+int64(f.Size()))
	}
}

func zero(t *testing.T, path string, from, to int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(make([]byte, to-from), from)
	must(t, err)
}

func TestOlderSlotServesWhenTheNewerIsTorn(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 4, 1)
	drain(t, q, c)
	for _, seq := range []uint64{1, 2} {
		must(t, c.Ack(seq))
		await.Until(t, "the cursor is durable", func() bool {
			_, accounts, err := state.OpenCursorFile(disk.OS(""), opts.Directory)
			return err == nil && accounts["a"].Next == seq+1
		})
	}
	closeQueue(t, q)
	path := filepath.Join(opts.Directory, state.CursorsFile)
	b, err := os.ReadFile(path)
	must(t, err)
	newest := int64(0)
	if le.Uint64(b[slotSize+16:]) > le.Uint64(b[16:]) { // their generations
		newest = slotSize
	}
	flip(t, path, newest+slotHead+1)
	q = open(t, opts)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), numbered(2, 4))
}
