package queue

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var s unix.Stat_t
	must(t, unix.Stat(path, &s))
	return s.Ino
}

func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	return names
}

// fillSegment stores records from next on until another segment has been begun,
// and returns the next number.
func fillSegment(t *testing.T, q *Queue, next int) int {
	t.Helper()
	for begun := len(*q.segments.Load()); len(*q.segments.Load()) == begun; next += 100 {
		storeNumbered(t, q, next, next+99, 100)
	}
	return next
}

// A segment that is done with is written over, and what it held never shows.
func TestSegmentsAreUsedAgain(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 64 << 10}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	next := fillSegment(t, q, 1)
	first := inode(t, segmentFiles(t, opts.Directory)[0])
	used := func() bool {
		for _, path := range segmentFiles(t, opts.Directory) {
			if inode(t, path) == first && path != filepath.Join(opts.Directory, segment.Name{FirstSeq: 1, Epoch: 1}.String()) {
				return true
			}
		}
		return false
	}
	var got []string
	for range 20 {
		got = append(got, drain(t, q, c)...)
		must(t, c.Ack(q.LastSeq()))
		await.Until(t, "delivered segments are gone", func() bool { return len(*q.segments.Load()) == 1 })
		if next = fillSegment(t, q, next); used() {
			break
		}
	}
	if !used() {
		t.Fatal("the file of the first segment was not used again")
	}
	got = append(got, drain(t, q, c)...)
	equal(t, "records", got, numbered(1, next-1))
	must(t, c.Ack(uint64(next-51))) // in the middle of a frame of the segment used again
	await.Until(t, "the ack is durable", func() bool {
		file, accounts, err := state.OpenCursorFile(disk.OS(""), opts.Directory)
		if err == nil {
			file.File.Close()
		}
		return err == nil && accounts["a"].Next == uint64(next-50)
	})
	killed(t, q)

	q = open(t, opts)
	equal(t, "records not acked, after a crash", drain(t, q, cursorOf(t, q, "a")), numbered(next-50, next-1))
	if s := q.Stats(); s.Corrupt != 0 || s.TornTails != 0 {
		t.Errorf("old content was taken for damage: %+v", s)
	}
}

// What is left over of an earlier use, whole frames with the right seqs, is not
// read behind the end of the log.
func TestOldFramesBehindTheEndAreNotRead(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	storeNumbered(t, q, 1, 3, 1)
	killed(t, q)
	path := segmentFiles(t, opts.Directory)[0]
	at := offsets(t, path)
	content, err := os.ReadFile(path)
	must(t, err)
	old := slices.Clone(content[at[2]:at[3]])
	segment.Place(old, 99, at[3], 4) // a frame that would come next, of another epoch
	copy(content[at[3]:], old)
	must(t, os.WriteFile(path, content, 0o600))

	q = open(t, opts)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), numbered(1, 3))
	if s := q.Stats(); s.Corrupt != 0 || s.TornTails != 0 || len(files(t, opts.Directory, state.QuarantineDir+"/*")) > 0 {
		t.Errorf("old content was taken for damage: %+v", s)
	}
}

// An epoch that a spare has seen is not given out again, though nothing else
// remembers it.
func TestEpochsOfSparesAreNotGivenOutAgain(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	must(t, os.MkdirAll(opts.Directory, 0o700))
	spare := make([]byte, minSegmentBytes)
	copy(spare, encodeHeader(segment.Header{}, segment.Name{FirstSeq: 1, Epoch: 41}))
	must(t, os.WriteFile(filepath.Join(opts.Directory, state.SparePrefix+"7"), spare, 0o600))
	q := open(t, opts)
	storeNumbered(t, q, 1, 1, 1)
	if got := (*q.segments.Load())[0].Epoch; got <= 41 {
		t.Errorf("epoch of the first segment: got %d, want more than 41", got)
	}
}

// What a crash leaves of a segment that was being begun may hold anything.
func TestUnfinishedFilesAreRemovedAtOpen(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	leftover := []string{state.BeginPrefix + "3" + disk.NewSuffix, state.SparePrefix + "4", state.SparePrefix + "5"}
	for i, name := range leftover {
		content := strings.Repeat("x", minSegmentBytes-i) // no header of a segment, or not its size
		must(t, os.WriteFile(filepath.Join(opts.Directory, name), []byte(content), 0o600))
	}
	q := open(t, opts)
	for _, name := range leftover {
		if _, err := os.Stat(filepath.Join(opts.Directory, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want it gone", name, err)
		}
	}
	storeNumbered(t, q, 1, 1, 1)
}

// The file that was prepared and not used serves the next process.
func TestPreparedSegmentSurvivesAStop(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	prepared(t, q)
	closeQueue(t, q)
	spares := files(t, opts.Directory, state.SparePrefix+"*")
	if len(spares) != 1 {
		t.Fatalf("spares after the stop: got %v, want one", spares)
	}
	want := inode(t, spares[0])
	q = open(t, opts)
	storeNumbered(t, q, 1, 1, 1)
	if got := inode(t, segmentFiles(t, opts.Directory)[0]); got != want {
		t.Error("the first segment has another file")
	}
}

// The files of the queue together stay within MaxBytes, whatever sinks do.
func TestFilesStayWithinMaxBytes(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 64 << 10, MaxBytes: 1 << 20, WhenFull: DropOldest}
	q := open(t, opts)
	cursorOf(t, q, "dead")
	for n := range 400 {
		store(t, q, chunk(strings.Repeat("x", 9000)))
		if n%10 == 0 {
			var size int64
			for _, path := range slices.Concat(segmentFiles(t, opts.Directory), files(t, opts.Directory, state.SparePrefix+"*"), files(t, opts.Directory, state.BeginPrefix+"*")) {
				if info, err := os.Stat(path); err == nil {
					size += info.Size()
				}
			}
			if size > opts.MaxBytes {
				t.Fatalf("after %d records: %d bytes on disk, want at most %d", n, size, opts.MaxBytes)
			}
		}
	}
	s := q.Stats()
	if a := s.Cursors["dead"]; a.Dropped == 0 || a.Next-1 != a.Dropped || a.Next < s.FirstSeq {
		t.Errorf("account of the dead sink: %+v, first seq %d: what is gone must be counted as dropped", a, s.FirstSeq)
	}
}
