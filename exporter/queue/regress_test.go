package queue

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// failFrames fails every write of frames to segments: the header, which is the
// first write to a new file, succeeds.
func failFrames() func(op, name string) error {
	var mu sync.Mutex
	created := map[string]bool{}
	return func(op, name string) error {
		mu.Lock()
		defer mu.Unlock()
		if !isSegment(name) {
			return nil
		}
		switch op {
		case "create":
			created[name] = true
		case "write":
			if created[name] {
				created[name] = false
				return nil
			}
			return unix.ENOSPC
		}
		return nil
	}
}

// The process ends between the start of the tail's new segment and its sync.
func TestTailSurvivesARewriteThatDidNotFinish(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " records"), func(t *testing.T) {
			opts := Options{Directory: t.TempDir()}
			q := open(t, opts)
			storeNumbered(t, q, 1, n, 1) // all acknowledged
			closeQueue(t, q)

			fsys := &faultFS{FS: osFS{}}
			fsys.set(failFrames())
			q = open(t, Options{Directory: opts.Directory, FS: fsys})
			closeQueue(t, q)

			q = open(t, opts)
			equal(t, "acknowledged records", drain(t, q, cursorOf(t, q, "a")), numbered(1, n))
		})
	}
}

// Damage right before the unproven tail.
func TestDamageBeforeTheTailKeepsTheTailsSeq(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	storeNumbered(t, q, 1, 6, 1)
	closeQueue(t, q)
	segment := segmentFiles(t, opts.Directory)[0]
	at := offsets(t, segment)
	flip(t, segment, at[5]-4) // in record 5
	q = open(t, opts)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), slices.Concat(numbered(1, 4), numbered(6, 6)))
	if got := q.Stats().Corrupt; got != 1 {
		t.Errorf("corrupt: got %d, want 1", got)
	}
}

// The last segment is missing.
func TestMissingLastSegmentRenumbersNothing(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	storeNumbered(t, q, 1, 5, 1)
	closeQueue(t, q)
	must(t, os.Remove(segmentFiles(t, opts.Directory)[4]))
	q = open(t, opts)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), numbered(1, 4))
}

// Delivered segments go although no checkpoint can be written.
func TestFullDiskStillFreesSegments(t *testing.T) {
	fsys := &faultFS{FS: osFS{}}
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 1, FS: fsys})
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 5, 1)
	eventually(t, "checkpoint reaches the fourth segment", func() bool {
		cp, ok, _ := readCheckpoint(osFS{}, q.opts.Directory)
		return ok && cp.Epoch == 4
	})
	fsys.set(func(op, name string) error {
		if op == "create" && strings.HasSuffix(name, positionsFile+".new") {
			return unix.ENOSPC
		}
		return nil
	})
	storeNumbered(t, q, 6, 6, 1)
	drain(t, q, c)
	must(t, c.Ack(6))
	eventually(t, "the segments that the old checkpoint covers are gone", func() bool { return q.Stats().FirstSeq >= 5 })
	fsys.set(nil)
}

// A disk that fails for long does not fill up.
func TestFailedAttemptsLeaveNoFiles(t *testing.T) {
	fsys := &faultFS{FS: osFS{}}
	var out lockedBuffer
	opts := Options{Directory: t.TempDir(), FS: fsys, Log: slog.New(slog.NewTextHandler(&out, nil))}
	q := open(t, opts)
	storeNumbered(t, q, 1, 1, 1)
	var attempts atomic.Int32
	fsys.set(func(op, name string) error {
		if op != "sync" || !isSegment(name) {
			return nil
		}
		attempts.Add(1)
		return errDisk
	})
	must(t, q.Append(t.Context(), chunk(strings.Repeat("x", 1<<20)), nil))
	eventually(t, "six attempts", func() bool { return attempts.Load() >= 6 })
	var size int64
	files := segmentFiles(t, opts.Directory)
	for _, f := range files {
		info, err := os.Stat(f)
		must(t, err)
		size += info.Size()
	}
	if len(files) > 3 {
		t.Errorf("%d attempts left %d segments of %d bytes together, of which Stats knows %d", attempts.Load(), len(files), size, q.Stats().Bytes)
	}
	if n := strings.Count(out.String(), "cannot write"); n > 2 {
		t.Errorf("one lasting fault was logged %d times", n)
	}
	fsys.set(nil)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}
func (l *lockedBuffer) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// What frames without records say survives, wherever in a segment they stand.
func TestRefusalsSurviveALostCheckpoint(t *testing.T) {
	refusal := func() *Chunk {
		return &Chunk{Source: "test", Producer: "p", Position: 42, Received: time.Now(), Refused: []Tally{{"InvalidJSON", 1}}}
	}
	for name, first := range map[string]bool{"segment without records": true, "end of a segment": false} {
		t.Run(name, func(t *testing.T) {
			fsys := &faultFS{FS: osFS{}}
			fsys.set(func(op, name string) error { // the crash comes before the checkpoint
				if op == "create" && strings.HasSuffix(name, positionsFile+".new") {
					return unix.ENOSPC
				}
				return nil
			})
			opts := Options{Directory: t.TempDir(), SegmentBytes: 8192, FS: fsys}
			q := open(t, opts)
			if !first {
				storeNumbered(t, q, 1, 1, 1)
			}
			store(t, q, refusal())
			store(t, q, chunk(strings.Repeat("x", 5000))) // begins the next segment
			q.Close(t.Context())                          // its error is that of the checkpoint
			q = open(t, Options{Directory: opts.Directory, SegmentBytes: 8192})
			if n, _, _ := q.Position(t.Context(), "p"); n != 42 {
				t.Errorf("position: got %d, want 42", n)
			}
			if got := q.Stats().Sources["test"].Refused["InvalidJSON"]; got != 1 {
				t.Errorf("refused: got %d, want 1", got)
			}
		})
	}
}

// Frames without records do not grow a full queue for ever.
func TestRefusingQueueStaysBounded(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 8 << 10, MaxBytes: 40 << 10, RefuseWhenFull: true}
	q := open(t, opts)
	cursorOf(t, q, "dead")
	fill(t, q)
	for range 1500 {
		store(t, q, &Chunk{Source: "test", Received: time.Now(), Refused: []Tally{{"QueueFull", 1}}})
	}
	eventually(t, "the queue is within its bound", func() bool { return q.Stats().Bytes <= 2*opts.MaxBytes })
}

// damaged makes a queue of many segments, the middle one with a frame damaged,
// which a checkpoint covers.
func damaged(t *testing.T) Options {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	storeNumbered(t, q, 1, 15, 3)
	eventually(t, "checkpoint", func() bool {
		cp, ok, _ := readCheckpoint(osFS{}, q.opts.Directory)
		return ok && cp.Epoch == 4
	})
	closeQueue(t, q)
	flip(t, segmentFiles(t, opts.Directory)[1], 4096+80+4)
	return opts
}

// Several sinks meet the same damage at once.
func TestSinksMeetDamageTogether(t *testing.T) {
	for range 20 {
		q := open(t, damaged(t))
		var wg sync.WaitGroup
		for i := range 4 {
			c := cursorOf(t, q, fmt.Sprint(i))
			wg.Go(func() {
				for c.next <= 15 {
					if _, err := c.Next(t.Context(), Limits{Records: 3, Bytes: 1 << 20}); err != nil {
						t.Errorf("Next: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
		closeQueue(t, q)
		if t.Failed() {
			return
		}
	}
}

// Damage that could not be copied to quarantine holds nobody up, and is not
// deleted: its segment goes there as a whole.
func TestDamageIsKeptOnAFullDisk(t *testing.T) {
	fsys := &faultFS{FS: osFS{}}
	opts := damaged(t)
	opts.FS = fsys
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	lim := Limits{Records: 3, Bytes: 1 << 20}
	_, err := c.Next(t.Context(), lim)
	must(t, err)
	fsys.set(func(op, name string) error {
		if op == "create" && strings.Contains(name, quarantineDir) {
			return unix.ENOSPC
		}
		return nil
	})
	for c.next <= 15 {
		_, err = c.Next(t.Context(), lim)
		must(t, err)
	}
	must(t, c.Ack(15))
	eventually(t, "the delivered segments are gone", func() bool { return q.Stats().FirstSeq > 4 })
	fsys.set(nil)
	kept, _ := os.ReadDir(filepath.Join(opts.Directory, quarantineDir))
	if len(kept) != 1 || !strings.HasPrefix(kept[0].Name(), "00000000000000000004-") {
		t.Errorf("quarantine: got %v, want the damaged segment", kept)
	}
}

// What a failed commit left behind does not hide its successor's records.
func TestLeftoverOfAFailedCommitHidesNothing(t *testing.T) {
	fsys := &faultFS{FS: osFS{}}
	opts := Options{Directory: t.TempDir(), FS: fsys}
	q := open(t, opts)
	storeNumbered(t, q, 1, 2, 1)
	// Hold up a commit, so that the next two chunks share one, which fails.
	syncing, goOn := make(chan struct{}), make(chan struct{})
	n := 0
	fsys.set(func(op, name string) error {
		if op == "sync" && isSegment(name) {
			n++
			if n == 1 {
				close(syncing)
				<-goOn
			}
			if n == 2 {
				return errDisk
			}
		}
		return nil
	})
	must(t, q.Append(t.Context(), chunk(`{"n":3}`), nil))
	<-syncing
	for i := 4; i <= 5; i++ {
		must(t, q.Append(t.Context(), chunk(fmt.Sprintf(`{"n":%d}`, i)), nil))
	}
	close(goOn)
	eventually(t, "durable", func() bool { return q.LastSeq() == 5 })
	storeNumbered(t, q, 6, 7, 1)
	closeQueue(t, q)
	segment := segmentFiles(t, opts.Directory)[0]
	at := offsets(t, segment)
	if len(at) != 6 {
		t.Fatalf("%d frames in the first segment", len(at)-1)
	}
	zero(t, segment, at[2], at[4]) // record 3, and the leftover of 4
	q = open(t, Options{Directory: opts.Directory})
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), slices.Concat(numbered(1, 2), numbered(4, 7)))
}

// A record stamped by a clock that was ahead does not wait for that time.
func TestRecordFromTheFutureDoesNotHoldTheBatch(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir()})
	c := chunk("{}")
	c.Received = time.Now().Add(time.Hour)
	store(t, q, c)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	began := time.Now()
	_, err := cursorOf(t, q, "a").Next(ctx, Limits{Records: 10, Bytes: 1000, Wait: 10 * time.Millisecond})
	if took := time.Since(began); err != nil || took > 5*time.Second {
		t.Errorf("a batch that may wait 10 ms took %v: %v", took, err)
	}
}

// Positions of frames without records are told only when they are durable.
func TestPositionOfARefusalWaitsForTheTail(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 2, 1)
	drain(t, q, c)
	must(t, c.Ack(2))
	store(t, q, &Chunk{Source: "test", Producer: "p", Position: 42, Received: time.Now(), Refused: []Tally{{"InvalidJSON", 1}}})
	closeQueue(t, q)
	fsys := &faultFS{FS: osFS{}}
	fsys.set(failing("sync", func() bool { return true }))
	opts.FS = fsys
	q = open(t, opts)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if n, known, err := q.Position(ctx, "p"); err == nil && known {
		t.Errorf("position %d was told while its frame is unproven and the disk takes no writes", n)
	}
	fsys.set(nil)
}

// No cursor is ever beyond LastSeq.
func TestCursorWithinTheTailIsNotBeyondLastSeq(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 5, 5)
	drain(t, q, c)
	must(t, c.Ack(2))
	closeQueue(t, q)
	fsys := &faultFS{FS: osFS{}}
	fsys.set(failing("sync", func() bool { return true }))
	opts.FS = fsys
	q = open(t, opts)
	s := q.Stats()
	if pending := s.LastSeq + 1 - s.Cursors["a"].Next; pending > 5 {
		t.Errorf("pending: got %d; last seq %d, cursor at %d", pending, s.LastSeq, s.Cursors["a"].Next)
	}
	fsys.set(nil)
}

// Overlapping losses count once.
func TestOverlappingLossesCountOnce(t *testing.T) {
	s := newState()
	s.addLost(SeqRange{15, 20})
	s.addLost(SeqRange{10, 20})
	s.addLost(SeqRange{10, 25})
	s.addLost(SeqRange{24, 30})
	if got := s.corrupt(); got != 20 {
		t.Errorf("corrupt: got %d, want 20: %v", got, s.Lost)
	}
}

// The same with sinks.
func TestDamageMetMidFrameCountsOnce(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	a, b := cursorOf(t, q, "a"), cursorOf(t, q, "b")
	storeNumbered(t, q, 1, 12, 4)
	drain(t, q, a)
	must(t, a.Ack(2))
	_ = b
	eventually(t, "checkpoint", func() bool {
		cp, ok, _ := readCheckpoint(osFS{}, q.opts.Directory)
		return ok && cp.Epoch == 2
	})
	closeQueue(t, q)
	flip(t, segmentFiles(t, opts.Directory)[0], 4096+80+4)
	q = open(t, opts)
	a, b = cursorOf(t, q, "a"), cursorOf(t, q, "b")
	drain(t, q, a)
	drain(t, q, b)
	if got := q.Stats().Corrupt; got != 4 {
		t.Errorf("corrupt: got %d, want 4", got)
	}
}

// What a sink has passed was durable, and so was its whole commit.
func TestCursorProvesTheLastCommit(t *testing.T) {
	fsys := &faultFS{FS: osFS{}}
	opts := Options{Directory: t.TempDir(), FS: fsys}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 2, 1)
	syncing, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fsys.set(func(op, name string) error {
		if op == "sync" && isSegment(name) {
			once.Do(func() { close(syncing); <-goOn })
		}
		return nil
	})
	must(t, q.Append(t.Context(), chunk(`{"n":3}`), nil))
	<-syncing
	for n := 4; n <= 6; n++ {
		must(t, q.Append(t.Context(), chunk(fmt.Sprintf(`{"n":%d}`, n)), nil))
	}
	close(goOn)
	eventually(t, "durable", func() bool { return q.LastSeq() == 6 })
	drain(t, q, c)
	must(t, c.Ack(5)) // 4 and 5 are delivered, so the commit of 4 to 6 was durable
	closeQueue(t, q)
	segment := segmentFiles(t, opts.Directory)[0]
	at := offsets(t, segment)
	zero(t, segment, at[3], at[4]) // record 4
	q = open(t, Options{Directory: opts.Directory})
	equal(t, "another sink", drain(t, q, cursorOf(t, q, "b")), slices.Concat(numbered(1, 3), numbered(5, 6)))
	equal(t, "the sink", drain(t, q, cursorOf(t, q, "a")), numbered(6, 6))
}

type removeFaultFS struct {
	FS
	fail atomic.Int32
}

func (f *removeFaultFS) Remove(name string) error {
	if isSegment(name) && f.fail.Add(-1) >= 0 {
		return unix.EIO
	}
	return f.FS.Remove(name)
}

// A segment whose removal failed is removed later.
func TestRemovalIsTriedAgain(t *testing.T) {
	fsys := &removeFaultFS{FS: osFS{}}
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1, FS: fsys}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 5, 1)
	eventually(t, "checkpoint", func() bool {
		cp, ok, _ := readCheckpoint(osFS{}, q.opts.Directory)
		return ok && cp.Epoch == 4
	})
	fsys.fail.Store(1)
	drain(t, q, c)
	must(t, c.Ack(5))
	eventually(t, "gone from the list", func() bool { return q.Stats().FirstSeq == 5 })
	eventually(t, "all but the last are removed", func() bool { return len(segmentFiles(t, opts.Directory)) == 1 })
}

// Damage that readers have met is remembered.
func TestCorruptSurvivesRestart(t *testing.T) {
	opts := damaged(t)
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	drain(t, q, c)
	must(t, c.Ack(15))
	before := q.Stats().Corrupt
	closeQueue(t, q)
	q = open(t, opts)
	if got := q.Stats(); got.Corrupt != before {
		t.Errorf("corrupt: got %d after a restart, %d before; sink says %d", got.Corrupt, before, got.Cursors["a"].Corrupt)
	}
}

// An Open that fails leaves no file open.
func TestFailedOpenLeavesNoFiles(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	storeNumbered(t, q, 1, 1, 1)
	closeQueue(t, q)
	seg := segmentFiles(t, opts.Directory)[0]
	b, err := os.ReadFile(seg)
	must(t, err)
	b[8] = 2
	le.PutUint32(b[12:], segmentHeaderCRC(b))
	must(t, os.WriteFile(seg, b, 0o600))
	fds := func() int { e, _ := os.ReadDir("/proc/self/fd"); return len(e) }
	before := fds()
	for range 5 {
		if _, err := Open(opts); err == nil {
			t.Fatal("opened")
		}
	}
	if got := fds(); got > before {
		t.Errorf("open files: %d before, %d after five failed opens", before, got)
	}
}
