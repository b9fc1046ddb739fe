package queue

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// countingFS counts the bytes that are read.
type countingFS struct {
	disk.FS
	read atomic.Int64
}

func (f *countingFS) Open(name string) (disk.File, error) {
	file, err := f.FS.Open(name)
	return countingFile{file, f}, err
}

type countingFile struct {
	disk.File
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
	fsys := &countingFS{FS: disk.OS("")}
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
	position, _, err := highest(t.Context(), q, Producer{Source: "test", Name: "p"})
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
	seg := segmentFiles(t, opts.Directory)[0]
	flip(t, seg, offsets(t, seg)[2]-8) // in record 2
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
		if a := counts(c.Account()); a != (Account{Next: 7, Delivered: 5, Corrupt: 1}) {
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
	seg := segmentFiles(t, opts.Directory)[0]
	at := offsets(t, seg)
	f, err := os.OpenFile(seg, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	from := alignBlock(at[1])
	must(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, at[4]-100-from))
	zero(t, seg, at[1], from)
	q = open(t, opts)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), slices.Concat(want[:1], want[4:]))
	if got := q.Stats().Corrupt; got != 3 {
		t.Errorf("corrupt: got %d, want 3", got)
	}
}

// logOf writes a segment whose commits have so many frames, of one record each with size
// bytes. It returns the path and the offsets of the frames.
func logOf(t *testing.T, dir string, size int, commits ...int) (path string, at []int64) {
	t.Helper()
	name := segment.Name{FirstSeq: 1, Epoch: 1}
	b := encodeHeader(segment.Header{Queue: uuid.New()}, name)
	at = append(at, segment.HeaderSize)
	seq := uint64(1)
	for _, frames := range commits {
		durable := int64(len(b))
		for range frames {
			c := chunk(fmt.Sprintf(`{"n":%d,"pad":"%s"}`, seq, strings.Repeat("x", size)))
			c.Producer, c.Position = "p", seq
			from := len(b)
			b = segment.AppendFrame(b, c, crc32.Checksum(c.Records, castagnoli))
			segment.Place(b[from:], 1, durable, seq)
			at = append(at, int64(len(b)))
			seq++
		}
	}
	b = append(b, make([]byte, 64<<10)...)
	path = filepath.Join(dir, name.String())
	must(t, os.WriteFile(path, b, 0o600))
	return path, at
}

// numbersOf are the seqs of records that were drained.
func numbersOf(records []string) (seqs []string) {
	for _, r := range records {
		seq, _, _ := strings.Cut(r, ":")
		seqs = append(seqs, seq)
	}
	return seqs
}

// passedBy makes a cursors file in which a sink has passed everything before next.
func passedBy(t *testing.T, path string, next uint64) {
	t.Helper()
	header, err := os.ReadFile(path)
	must(t, err)
	f, err := state.CreateCursorFile(disk.OS(""), filepath.Dir(path), uuid.UUID(header[32:48]), map[string]Account{"s": {Next: next, Delivered: next - 1}})
	must(t, err)
	must(t, f.File.Close())
}

// The commits are {1} {2 3 4} {5 6}. A power cut has torn 5, so that 5 and 6 go. 6 says
// all the same that 2 to 4 were synced: 3, whose header is damaged, was acknowledged,
// counts as lost, is kept in quarantine, and its seq is given to nobody else.
func TestDamageInFrontOfATornCommit(t *testing.T) {
	dir := t.TempDir()
	path, at := logOf(t, dir, 100, 1, 3, 2)
	flip(t, path, at[2]+frameSeqAt)
	flip(t, path, at[4]+frameSeqAt)
	q := open(t, Options{Directory: dir})
	equal(t, "records", numbersOf(drain(t, q, cursorOf(t, q, "a"))), []string{"1", "2", "4"})
	if s := q.Stats(); s.Corrupt != 1 || s.LastSeq != 4 {
		t.Errorf("got %d corrupt and last seq %d, want 1 and 4", s.Corrupt, s.LastSeq)
	}
	kept, err := filepath.Glob(filepath.Join(dir, state.QuarantineDir, fmt.Sprintf("*.%d-%d", at[2], at[3])))
	if must(t, err); len(kept) != 1 {
		t.Errorf("quarantine has %q of record 3, want one copy", kept)
	}
}

// The commits are {1} {2 3}, and a sink has passed 2: so all of the second was durable,
// and 3 stays although the header of 2 is damaged now.
func TestDamageOfARecordThatWasPassed(t *testing.T) {
	dir := t.TempDir()
	path, at := logOf(t, dir, 100, 1, 2)
	passedBy(t, path, 3)
	flip(t, path, at[1]+frameSeqAt)
	q := open(t, Options{Directory: dir})
	equal(t, "records", numbersOf(drain(t, q, cursorOf(t, q, "s"))), []string{"3"})
	if s := q.Stats(); s.LastSeq != 3 || s.Corrupt != 1 {
		t.Errorf("got last seq %d and %d corrupt, want 3 and 1", s.LastSeq, s.Corrupt)
	}
}

// The commits are {1} {2} {3}. Record 2 is damaged, 3 is torn, and its header says that 2
// was synced. What the first start has told of 2 the second one says again, though the
// first has ended before its checkpoint.
func TestCutLeavesTheProof(t *testing.T) {
	dir := t.TempDir()
	path, at := logOf(t, dir, 100, 1, 1, 1)
	flip(t, path, at[2]-8)
	flip(t, path, at[3]-8)
	fsys := newTestFS()
	fsys.Boot(disk.OS(""), func() {})
	fsys.SetPlan(func(_ int, op, name string) crashdisk.Fault {
		if op == "create" && strings.HasSuffix(name, state.PositionsFile+".new") {
			return crashdisk.Fault{Err: unix.EIO}
		}
		return crashdisk.Fault{}
	})
	for range 2 {
		q, err := Open(Options{Directory: dir, FS: fsys})
		must(t, err)
		checkStored(t, q, 2)
		if err := q.Close(t.Context()); err == nil {
			t.Error("got a checkpoint, want none")
		}
	}
	q := open(t, Options{Directory: dir})
	checkStored(t, q, 2)
	closeQueue(t, q)
	checkStored(t, open(t, Options{Directory: dir}), 2)
}

// A torn frame is one wherever it begins in the reader's buffer.
func TestTornAtTheEndOfTheBuffer(t *testing.T) {
	for _, size := range []int{segment.ReadSize - 4096, segment.ReadSize - 40} {
		dir := t.TempDir()
		path, at := logOf(t, dir, size-80-len(`{"n":1,"pad":""}`)-1, 2)
		if at[1]-at[0] != int64(size) {
			t.Fatalf("frame of %d bytes, want %d", at[1]-at[0], size)
		}
		must(t, os.Truncate(path, at[2]-100))
		q := open(t, Options{Directory: dir})
		if got := q.Stats().TornTails; got != 1 {
			t.Errorf("first frame of %d bytes: %d torn tails, want 1", size, got)
		}
	}
}

// oddDataFS says something else about the holes of a file than there is.
type oddDataFS struct {
	disk.FS
	data func(off, size int64) (from, to int64, err error)
}

func (f oddDataFS) Open(name string) (disk.File, error) {
	file, err := f.FS.Open(name)
	return oddDataFile{file, f}, err
}

type oddDataFile struct {
	disk.File
	fs oddDataFS
}

func (f oddDataFile) Data(off int64) (from, to int64, err error) {
	size, err := f.Size()
	if err != nil {
		return 0, 0, err
	}
	return f.fs.data(off, size)
}

// What only spares time neither keeps a queue from opening nor changes what is found.
func TestOddData(t *testing.T) {
	for name, data := range map[string]func(off, size int64) (from, to int64, err error){
		"an error":         func(int64, int64) (int64, int64, error) { return 0, 0, unix.EIO },
		"all of the file":  func(off, size int64) (int64, int64, error) { return off, size, nil },
		"a byte at a time": func(off, _ int64) (int64, int64, error) { return off, off + 1, nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, at := logOf(t, dir, 100, 1, 3, 2, 1)
			flip(t, path, at[2]-8)
			flip(t, path, at[4]+frameSeqAt)
			q := open(t, Options{Directory: dir, FS: oddDataFS{disk.OS(""), data}})
			equal(t, "records", numbersOf(drain(t, q, cursorOf(t, q, "a"))), []string{"1", "3", "4", "6", "7"})
			if got := q.Stats().Corrupt; got != 2 {
				t.Errorf("corrupt: got %d, want 2", got)
			}
		})
	}
}

// The block of a record is a hole of the file, or zeros: what is left of its header says
// that it was stored.
func TestHoleInARecord(t *testing.T) {
	for name, mode := range map[string]uint32{
		"zeros": unix.FALLOC_FL_ZERO_RANGE, "a hole": unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, at := logOf(t, dir, 20<<10, 1, 1, 1, 1)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			must(t, err)
			defer f.Close()
			must(t, unix.Fallocate(int(f.Fd()), mode, alignBlock(at[2])+blockBytes, blockBytes)) // in record 3
			q := open(t, Options{Directory: dir})
			checkStored(t, q, 4)
			equal(t, "records", numbersOf(drain(t, q, cursorOf(t, q, "a"))), []string{"1", "2", "4"})
		})
	}
}

// Large commits leave the space behind them reserved and unwritten. A sink that meets
// damage at the end of the segment in use passes over it, and not over what is written
// there next.
func TestDamageAtTheEndOfTheSegmentInUse(t *testing.T) {
	const size = 512 << 10 // of a frame: the end is that of a block
	pad := size - (&Chunk{Source: "test"}).FrameSize() - len(`{"n":10,"pad":""}`) - 1
	record := func(n int) *Chunk {
		return chunk(fmt.Sprintf(`{"n":%d,"pad":"%s"}`, n, strings.Repeat("x", pad)))
	}
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 8 << 20})
	c := cursorOf(t, q, "a")
	for n := 10; n < 50; n++ {
		store(t, q, record(n))
	}
	drain(t, q, c)
	store(t, q, record(50))
	all := *q.segments.Load()
	last := all[len(all)-1]
	path, end := q.path(last.String()), last.end.Load()
	f, err := disk.OS("").Open(path)
	must(t, err)
	defer f.Close()
	if from, _, err := f.Data(end); err != nil || from == end {
		t.Fatalf("data behind %d: got %d (%v), want none: the test tests nothing", end, from, err)
	}
	flip(t, path, end-100)
	type answer struct {
		records []Record
		err     error
	}
	answered := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
	defer cancel()
	go func() {
		records, err := c.Next(ctx, Limits{Records: 7, Bytes: 1 << 20})
		answered <- answer{records, err}
	}()
	await.Until(t, "the damage is met", func() bool { return q.Stats().Corrupt == 1 })
	store(t, q, record(51))
	if a := <-answered; a.err != nil || len(a.records) != 1 || a.records[0].Seq != 42 {
		t.Errorf("got %d records (%v), want record 42", len(a.records), a.err)
	}
	if s := q.Stats(); s.Corrupt != 1 {
		t.Errorf("corrupt: got %d, want 1: %v", s.Corrupt, s.Lost)
	}
}

// offlineSays returns how many records docket queue finds lost in dir, and the last seq.
func offlineSays(t *testing.T, dir string) (lost, lastSeq uint64) {
	t.Helper()
	o, err := inspect.Open(dir, nil)
	must(t, err)
	_, err = o.Check(t.Context(), func(f inspect.Finding) error {
		lost += f.Lost.Size()
		return nil
	})
	must(t, err)
	contents, err := o.Contents(t.Context())
	must(t, err)
	must(t, o.Close())
	return lost, contents.LastSeq
}

// The commits are {1} {2} {3 4 5}. 2 was synced, as 5 says, and is damaged now; 3 and 4 of
// the last commit are torn, so that nobody was told of 5. It goes, or its producer would
// take 3 and 4 for stored. How many of what is gone were synced nobody knows: all count.
func TestHoleOverTheEndOfWhatWasSynced(t *testing.T) {
	dir := t.TempDir()
	path, at := logOf(t, dir, 100, 1, 1, 3)
	zero(t, path, at[1], at[4])
	if lost, last := offlineSays(t, dir); lost != 3 || last != 4 {
		t.Errorf("docket queue says: %d lost, last seq %d, want 3 and 4", lost, last)
	}
	for range 3 {
		q := open(t, Options{Directory: dir})
		if n, _, err := highest(t.Context(), q, Producer{Source: "test", Name: "p"}); n != 1 || err != nil {
			t.Errorf("position: got %d (%v), want 1", n, err)
		}
		if s := q.Stats(); s.LastSeq != 4 || s.Corrupt != 3 {
			t.Errorf("got last seq %d and %d corrupt, want 4 and 3", s.LastSeq, s.Corrupt)
		}
		closeQueue(t, q)
	}
	q := open(t, Options{Directory: dir})
	store(t, q, chunk("{}"))
	equal(t, "records", numbersOf(drain(t, q, cursorOf(t, q, "a"))), []string{"1", "5"})
}

// What docket queue says of a log is what Open makes of it.
func TestCheckSaysWhatOpenDoes(t *testing.T) {
	for name, tt := range map[string]struct {
		commits []int
		passed  uint64
	}{
		"a damaged record, and the commit behind it torn": {commits: []int{1, 1, 1}},
		"a commit that was passed in part":                {commits: []int{1, 2}, passed: 3},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, at := logOf(t, dir, 100, tt.commits...)
			if tt.passed > 0 {
				passedBy(t, path, tt.passed)
			}
			flip(t, path, at[2]-8)
			flip(t, path, at[3]-8)
			lost, last := offlineSays(t, dir)
			q := open(t, Options{Directory: dir})
			c := cursorOf(t, q, "a")
			store(t, q, chunk("{}")) // behind all damage
			if records, err := c.Next(t.Context(), Limits{Records: 1, Bytes: 1 << 20}); err != nil || len(records) != 1 {
				t.Fatalf("got %d records (%v), want the first", len(records), err)
			}
			must(t, c.Ack(1))
			drain(t, q, c)
			if s := q.Stats(); s.Corrupt != lost || s.LastSeq-1 != last {
				t.Errorf("docket queue: %d lost, last seq %d; Open: %d corrupt, last seq %d", lost, last, s.Corrupt, s.LastSeq-1)
			}
		})
	}
}
