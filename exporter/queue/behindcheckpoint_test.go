package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// numberedOnce is record n of producer p, with n lines that were duplicates: what a queue
// counts tells which of them it has counted, and how often.
func numberedOnce(n int) *Chunk {
	c := chunk(fmt.Sprintf(`{"n":%d}`, n))
	c.Producer, c.Position, c.Duplicates = "p", uint64(n), 1<<n
	return c
}

// checkCounted fails unless q has counted the records 1..n, each once.
func checkCounted(t *testing.T, q *Queue, n int) {
	t.Helper()
	position, _, err := highest(t.Context(), q, Producer{Source: "test", Name: "p"})
	must(t, err)
	s := q.Stats()
	got := s.Sources["test"]
	if position != uint64(n) || got.Stored != uint64(n) || got.Duplicate != 1<<(n+1)-2 || s.LastSeq != uint64(n) || s.Corrupt != 0 {
		t.Errorf("got position %d, last seq %d, %d stored, duplicates %b, %d corrupt; want %d records, each once",
			position, s.LastSeq, got.Stored, got.Duplicate, s.Corrupt, n)
	}
}

// copyOf returns a copy of a directory that is in use, which is what a process finds
// that comes after a kill.
func copyOf(t *testing.T, dir string) (copied string) {
	t.Helper()
	await.Until(t, "nothing changes during the copy", func() bool {
		copied = filepath.Join(t.TempDir(), "copy")
		return os.CopyFS(copied, os.DirFS(dir)) == nil
	})
	return copied
}

// A checkpoint may be written while the tail that stands behind it waits to be written
// again. Process after process is killed then, and the tail is still there.
func TestTailBehindACheckpoint(t *testing.T) {
	for name, last := range map[string]*Chunk{
		"a record":  numberedOnce(3),
		"no record": {Source: "test", Producer: "p", Position: 3, Received: time.Now(), Duplicates: 1 << 3},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			q := open(t, Options{Directory: dir})
			store(t, q, numberedOnce(1))
			store(t, q, numberedOnce(2))
			store(t, q, last)
			killed(t, q)
			end := offsets(t, segmentFiles(t, dir)[0])[2]
			for life := range 3 {
				fsys := &faultFS{FS: disk.OS("")}
				fsys.set(failing("sync", func() bool { return true }))
				q = open(t, Options{Directory: dir, FS: fsys})
				await.Until(t, "the checkpoint ends in front of the tail", func() bool {
					c, ok := readCheckpoint(t, dir)
					return ok && c.Epoch == 1 && c.End == end && c.NextSeq == 3
				})
				if got := q.LastSeq(); got != 2 {
					t.Errorf("life %d: last seq is %d, want 2 while the tail is not safe", life, got)
				}
				dir = copyOf(t, dir)
				fsys.set(nil)
			}
			for life := range 3 {
				q = open(t, Options{Directory: dir})
				position, _, err := highest(t.Context(), q, Producer{Source: "test", Name: "p"})
				must(t, err)
				if got := q.Stats().Sources["test"]; position != 3 || got.Duplicate != 2+4+8 || got.Stored != 2+uint64(last.Count) {
					t.Errorf("life %d: got position %d and %+v, want each of three chunks once", life, position, got)
				}
				closeQueue(t, q)
			}
			q = open(t, Options{Directory: dir})
			equal(t, "records", drain(t, q, cursorOf(t, q, "a")), numbered(1, 2+last.Count))
		})
	}
}

// A segment that failed has a checkpoint up to its end, and behind that whole frames of
// the commit that failed. They were acknowledged from its successor: where that is
// missing, they are what is left of it.
func TestFailedSegmentWithoutItsSuccessor(t *testing.T) {
	dir := t.TempDir()
	fsys := &faultFS{FS: disk.OS("")}
	q := open(t, Options{Directory: dir, FS: fsys})
	store(t, q, numberedOnce(1))
	prepared(t, q)
	var failed atomic.Bool
	fsys.set(failing("sync", func() bool { return !failed.Swap(true) }))
	store(t, q, numberedOnce(2)) // left behind in the first, durable in the second
	store(t, q, numberedOnce(3))
	await.Until(t, "there is a checkpoint of the failed segment", func() bool {
		c, ok := readCheckpoint(t, dir)
		return ok && c.Epoch == 1 && c.NextSeq == 2
	})
	dir = copyOf(t, dir)
	segments := segmentFiles(t, dir)
	if len(segments) != 2 || len(offsets(t, segments[0])) != 3 {
		t.Fatalf("got segments %q, want two, and two frames in the first", segments)
	}

	both := copyOf(t, dir)
	q = open(t, Options{Directory: both})
	checkCounted(t, q, 3)
	equal(t, "records of both", drain(t, q, cursorOf(t, q, "a")), numbered(1, 3))

	must(t, os.Remove(segments[1]))
	for range 2 {
		q = open(t, Options{Directory: dir})
		checkCounted(t, q, 2)
		equal(t, "records of the first", drain(t, q, cursorOf(t, q, "b")), numbered(1, 2))
		closeQueue(t, q)
	}
}

// What was closed is counted once, whatever else becomes of the directory.
func TestClosedAndThen(t *testing.T) {
	for name, then := range map[string]func(t *testing.T, dir, seg string){
		"nothing":                func(*testing.T, string, string) {},
		"the cursors are lost":   func(t *testing.T, dir, _ string) { must(t, os.Remove(filepath.Join(dir, state.CursorsFile))) },
		"the positions are lost": func(t *testing.T, dir, _ string) { must(t, os.Remove(filepath.Join(dir, state.PositionsFile))) },
		"the header is damaged":  func(t *testing.T, _, seg string) { flip(t, seg, 20) },
		"bytes are behind the end": func(t *testing.T, _, seg string) {
			b, err := os.ReadFile(seg)
			must(t, err)
			must(t, os.WriteFile(seg, append(b, b[segment.HeaderSize:]...), 0o600)) // frames of this epoch
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			q := open(t, Options{Directory: dir})
			c := cursorOf(t, q, "a")
			for n := 1; n <= 4; n++ {
				store(t, q, numberedOnce(n))
			}
			drain(t, q, c)
			must(t, c.Ack(2))
			closeQueue(t, q)
			seg := segmentFiles(t, dir)[0]
			then(t, dir, seg)
			for n := 5; n <= 7; n++ {
				q = open(t, Options{Directory: dir})
				checkCounted(t, q, n-1)
				store(t, q, numberedOnce(n))
				closeQueue(t, q)
			}
			q = open(t, Options{Directory: dir})
			checkCounted(t, q, 7)
			equal(t, "records", drain(t, q, cursorOf(t, q, "b")), numbered(1, 7))
		})
	}
}

// A file that ends before the checkpoint does has lost records, which are counted, and
// no seq of theirs is given out again.
func TestSegmentEndsBeforeItsCheckpoint(t *testing.T) {
	dir := t.TempDir()
	q := open(t, Options{Directory: dir})
	storeNumbered(t, q, 1, 5, 1)
	closeQueue(t, q)
	seg := segmentFiles(t, dir)[0]
	must(t, os.Truncate(seg, offsets(t, seg)[3]))
	for range 2 {
		q = open(t, Options{Directory: dir})
		if got := q.LastSeq(); got != 5 {
			t.Errorf("last seq: got %d, want 5", got)
		}
		closeQueue(t, q)
	}
	q = open(t, Options{Directory: dir})
	storeNumbered(t, q, 6, 6, 1)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), slices.Concat(numbered(1, 3), numbered(6, 6)))
	if got := q.Stats().Corrupt; got != 2 {
		t.Errorf("corrupt: got %d, want 2", got)
	}
}

// A refusal is the tail, and the records behind it that a sink has passed are gone: what
// comes next is beyond that sink, or it would never be delivered.
func TestTailWithoutRecordsAndALostEnd(t *testing.T) {
	dir := t.TempDir()
	q := open(t, Options{Directory: dir})
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 2, 1)
	store(t, q, &Chunk{Source: "test", Producer: "p", Position: 42, Received: time.Now(), Refused: []Tally{{Name: "InvalidJSON", Count: 1}}})
	storeNumbered(t, q, 3, 4, 1)
	drain(t, q, c)
	must(t, c.Ack(4))
	await.Until(t, "the cursor is durable", func() bool {
		f, accounts, err := state.OpenCursorFile(disk.OS(""), dir)
		return err == nil && f.File.Close() == nil && accounts["a"].Next == 5
	})
	killed(t, q)
	seg := segmentFiles(t, dir)[0]
	at := offsets(t, seg)
	zero(t, seg, at[3], at[5])

	// The process is killed once more before the refusal is safe elsewhere.
	fsys := &faultFS{FS: disk.OS("")}
	fsys.set(failing("sync", func() bool { return true }))
	open(t, Options{Directory: dir, FS: fsys})
	await.Until(t, "there is a checkpoint in front of the refusal", func() bool {
		c, ok := readCheckpoint(t, dir)
		return ok && c.Epoch == 1 && c.End == at[2] && c.NextSeq == 5
	})
	dir = copyOf(t, dir)
	fsys.set(nil)

	q = open(t, Options{Directory: dir})
	if n, _, err := highest(t.Context(), q, Producer{Source: "test", Name: "p"}); err != nil || n != 42 {
		t.Errorf("position: got %d (%v), want 42", n, err)
	}
	if s := q.Stats(); s.LastSeq != 4 || s.Corrupt != 2 {
		t.Errorf("got last seq %d and %d corrupt, want 4 and 2", s.LastSeq, s.Corrupt)
	}
	storeNumbered(t, q, 5, 6, 1)
	equal(t, "the sink", drain(t, q, cursorOf(t, q, "a")), numbered(5, 6))
}
