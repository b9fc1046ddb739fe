package queue

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// countingFS counts the bytes that are read.
type countingFS struct {
	FS
	read atomic.Int64
}

func (f *countingFS) Open(name string) (File, error) {
	file, err := f.FS.Open(name)
	return countingFile{file, f}, err
}

type countingFile struct {
	File
	fs *countingFS
}

func (f countingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.fs.read.Add(int64(n))
	return n, err
}

// storeLarge stores the records 1..n, of size bytes each, in commits of their own, and
// returns them as they are delivered.
func storeLarge(t *testing.T, q *Queue, n, size int) (want []string) {
	t.Helper()
	for i := 1; i <= n; i++ {
		text := fmt.Sprintf(`{"n":%d,"pad":"%s"}`, i, strings.Repeat("x", size))
		c := chunk(text)
		c.Producer, c.Position = "p", uint64(i)
		store(t, q, c)
		want = append(want, fmt.Sprintf("%d:%s", i, text))
	}
	return want
}

// After a kill Open looks at the records of the last commit alone, and at the rest of
// the file once.
func TestOpenAfterAKillReadsHeaders(t *testing.T) {
	const records, size, segmentBytes = 45, 64 << 10, 3 << 20
	opts := Options{Directory: t.TempDir(), SegmentBytes: segmentBytes}
	q := open(t, opts)
	want := storeLarge(t, q, records, size)
	killed(t, q)
	fsys := &countingFS{FS: osFS{}}
	opts.FS = fsys
	q = open(t, opts)
	if got := fsys.read.Load(); got > segmentBytes/4 {
		t.Errorf("Open read %d bytes of %d, want %d at most", got, records*size, segmentBytes/4)
	}
	checkStored(t, q, records)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), want)
}

// checkStored fails unless q counts n records of producer p as stored.
func checkStored(t *testing.T, q *Queue, n uint64) {
	t.Helper()
	position, _, err := q.Position(t.Context(), "p")
	must(t, err)
	if got := q.Stats().Sources["test"].Stored; position != n || got != n || q.LastSeq() != n {
		t.Errorf("got position %d, %d stored, and last seq %d, want %d each", position, got, q.LastSeq(), n)
	}
}

// What was acknowledged and is damaged later was stored all the same: it is counted so,
// its producer goes on behind it, and sinks count it as corrupt.
func TestDamagedRecordsWereStored(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	want := storeLarge(t, q, 6, 100)
	killed(t, q)
	segment := segmentFiles(t, opts.Directory)[0]
	flip(t, segment, offsets(t, segment)[2]-8) // in record 2
	for _, life := range []string{"first", "second"} {
		q = open(t, opts)
		checkStored(t, q, 6)
		c := cursorOf(t, q, life)
		equal(t, life+" life", drain(t, q, c), slices.Concat(want[:1], want[2:]))
		if got := q.Stats().Corrupt; got != 1 {
			t.Errorf("%s life: corrupt: got %d, want 1", life, got)
		}
		if life == "first" {
			closeQueue(t, q)
			continue
		}
		must(t, c.Ack(6))
		if a := c.Account(); a != (Account{Next: 7, Delivered: 5, Corrupt: 1}) {
			t.Errorf("got account %+v, want 5 delivered and 1 corrupt", a)
		}
	}
}

// A file system that has lost blocks shows a hole in the file. It is passed over at once,
// and what stands behind it is found.
func TestHoleInTheFile(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 8 << 20}
	q := open(t, opts)
	want := storeLarge(t, q, 6, 900<<10)
	killed(t, q)
	segment := segmentFiles(t, opts.Directory)[0]
	at := offsets(t, segment)
	f, err := os.OpenFile(segment, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	from := alignBlock(at[1])
	must(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, at[4]-100-from))
	zero(t, segment, at[1], from)
	q = open(t, opts)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), slices.Concat(want[:1], want[4:]))
	if got := q.Stats().Corrupt; got != 3 {
		t.Errorf("corrupt: got %d, want 3", got)
	}
}
