package queue

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
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
			killed(t, q)

			fsys := &faultFS{FS: disk.OS("")}
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
	for name, inRecord5 := range map[string]func(at []int64) int64{
		"a record": func(at []int64) int64 { return at[5] - 4 },
		"a header": func(at []int64) int64 { return at[4] + frameSeqAt },
	} {
		t.Run(name, func(t *testing.T) {
			opts := Options{Directory: t.TempDir()}
			q := open(t, opts)
			storeNumbered(t, q, 1, 6, 1)
			killed(t, q)
			seg := segmentFiles(t, opts.Directory)[0]
			flip(t, seg, inRecord5(offsets(t, seg)))
			q = open(t, opts)
			equal(t, "records", drain(t, q, cursorOf(t, q, "a")), slices.Concat(numbered(1, 4), numbered(6, 6)))
			if got := q.Stats().Corrupt; got != 1 {
				t.Errorf("corrupt: got %d, want 1", got)
			}
		})
	}
}

// The last segment is missing.
func TestMissingLastSegmentRenumbersNothing(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	storeNumbered(t, q, 1, 5, 1)
	killed(t, q)
	must(t, os.Remove(segmentFiles(t, opts.Directory)[4]))
	q = open(t, opts)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), numbered(1, 4))
}

// What frames without records say survives, wherever in a segment they stand.
func TestRefusalsSurviveALostCheckpoint(t *testing.T) {
	refusal := func() *Chunk {
		return &Chunk{Source: "test", Producer: "p", Position: 42, Received: time.Now(), Refused: []Tally{{Name: "InvalidJSON", Count: 1}}}
	}
	for name, first := range map[string]bool{"segment without records": true, "end of a segment": false} {
		t.Run(name, func(t *testing.T) {
			fsys := &faultFS{FS: disk.OS("")}
			fsys.set(func(op, name string) error { // the crash comes before the checkpoint
				if op == "create" && strings.HasSuffix(name, state.PositionsFile+".new") {
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
			if n, _, _ := highest(t.Context(), q, Producer{Source: "test", Name: "p"}); n != 42 {
				t.Errorf("position: got %d, want 42", n)
			}
			if got := q.Stats().Sources["test"].Refused["InvalidJSON"]; got != 1 {
				t.Errorf("refused: got %d, want 1", got)
			}
		})
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
	store(t, q, &Chunk{Source: "test", Producer: "p", Position: 42, Received: time.Now(), Refused: []Tally{{Name: "InvalidJSON", Count: 1}}})
	killed(t, q)
	fsys := &faultFS{FS: disk.OS("")}
	fsys.set(failing("sync", func() bool { return true }))
	opts.FS = fsys
	q = open(t, opts)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if n, known, err := highest(ctx, q, Producer{Source: "test", Name: "p"}); err == nil && known {
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
	fsys := &faultFS{FS: disk.OS("")}
	fsys.set(failing("sync", func() bool { return true }))
	opts.FS = fsys
	q = open(t, opts)
	s := q.Stats()
	if pending := s.LastSeq + 1 - s.Cursors["a"].Next; pending > 5 {
		t.Errorf("pending: got %d; last seq %d, cursor at %d", pending, s.LastSeq, s.Cursors["a"].Next)
	}
	fsys.set(nil)
}

// What a sink has passed was durable, and so was its whole commit.
func TestCursorProvesTheLastCommit(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	opts := Options{Directory: t.TempDir(), FS: fsys}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 2, 1)
	prepared(t, q)
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
	await.Until(t, "durable", func() bool { return q.LastSeq() == 6 })
	drain(t, q, c)
	must(t, c.Ack(5)) // 4 and 5 are delivered, so the commit of 4 to 6 was durable
	closeQueue(t, q)
	seg := segmentFiles(t, opts.Directory)[0]
	at := offsets(t, seg)
	zero(t, seg, at[3], at[4]) // record 4
	q = open(t, Options{Directory: opts.Directory})
	equal(t, "another sink", drain(t, q, cursorOf(t, q, "b")), slices.Concat(numbered(1, 3), numbered(5, 6)))
	equal(t, "the sink", drain(t, q, cursorOf(t, q, "a")), numbered(6, 6))
}
