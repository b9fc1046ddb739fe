package queue

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A segment goes only after the cursors that release it and the checkpoint that
// covers it are durable: written, synced, and their name too.
func TestSegmentsStayUntilWhatReleasesThemIsDurable(t *testing.T) {
	for _, step := range []struct{ op, suffix string }{
		{"write", cursorsFile}, {"sync", cursorsFile},
		{"create", positionsFile + ".new"}, {"write", positionsFile + ".new"}, {"sync", positionsFile + ".new"},
		{"syncdir", ""}, // after the checkpoint's rename
	} {
		t.Run(step.op+" "+step.suffix, func(t *testing.T) {
			fsys := &faultFS{FS: osFS{}}
			q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 1, FS: fsys})
			c := cursorOf(t, q, "a")
			eventually(t, "the new sink is durable", func() bool {
				f, a, err := openCursorFile(osFS{}, q.opts.Directory)
				if err == nil {
					f.file.Close()
				}
				return err == nil && len(a) == 1
			})
			var failed atomic.Int32
			var replacing atomic.Bool // the positions file is being replaced
			fsys.set(func(op, name string) error {
				if op == "sync" && strings.HasSuffix(name, positionsFile+".new") {
					replacing.Store(true)
				}
				if op != step.op || !strings.HasSuffix(name, step.suffix) || (op == "syncdir" && !replacing.CompareAndSwap(true, false)) {
					return nil
				}
				failed.Add(1)
				return errDisk
			})
			storeNumbered(t, q, 1, 5, 1)
			drain(t, q, c)
			must(t, c.Ack(5))
			deadline := time.Now().Add(2 * time.Second)
			for failed.Load() < 3 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond) // polls the housekeeper
			}
			if failed.Load() < 3 {
				t.Error("the step was not tried again")
			}
			if got := q.Stats().FirstSeq; got != 1 {
				t.Errorf("first kept record: got %d, want 1", got)
			}
			fsys.set(nil)
			eventually(t, "segments go once the disk is well", func() bool { return q.Stats().FirstSeq == 5 })
		})
	}
}
