package queue

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// commitBytes is how much one commit gathers before Append waits. It bounds the
// memory of the queue (two such buffers) and the time of one commit, and is
// large enough that the disk runs at full speed (from 256 KiB on, measured).
const commitBytes = 4 << 20

// commit is what one write and one sync make durable together.
type commit struct {
	buf    []byte // frames, one after another
	frames []pendingFrame
}

type pendingFrame struct {
	at      int    // offset in buf
	settled func() // may be nil
}

func (c *commit) reset() {
	c.buf = c.buf[:0]
	clear(c.frames)
	c.frames = c.frames[:0]
}

// Append puts c on its way to the disk and returns. settled is called once it
// is durable; from then on cursors may see its records, and Position its
// position. Chunks become durable in the order of their Append calls. settled
// must not block and is not called when the queue closes first: nothing is
// known then. c and its bytes may be reused on return.
//
// Append blocks while the commit being gathered is full and, unless
// RefuseWhenFull, while the queue is full. A chunk without records, which only
// counts, is accepted by a full queue too: segments of such chunks alone are
// removed whatever the sinks do.
//
// Errors: ErrFull, ErrClosed, that of ctx, or a fault in c.
func (q *Queue) Append(ctx context.Context, c *Chunk, settled func()) error {
	if err := c.check(); err != nil {
		return err
	}
	size := c.frameSize()
	for {
		room := q.room.wait()
		ok, err := q.tryAppend(c, size, settled)
		if ok || err != nil {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return fmt.Errorf("queue: append: %w", context.Cause(ctx))
		}
	}
}

// tryAppend is Append without the waiting; ok is false when there is no room.
func (q *Queue) tryAppend(c *Chunk, size int, settled func()) (ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, ErrClosed
	}
	p := q.pending
	if c.Count > 0 && q.isFull(int64(len(p.buf))) {
		if q.opts.RefuseWhenFull {
			return false, ErrFull
		}
		wake(q.dirty) // segments may be ready to go
		return false, nil
	}
	if len(p.buf) > 0 && len(p.buf)+size > commitBytes {
		return false, nil
	}
	p.frames = append(p.frames, pendingFrame{at: len(p.buf), settled: settled})
	p.buf = appendFrame(p.buf, c)
	if len(p.frames) == 1 {
		wake(q.work)
	}
	return true, nil
}

// isFull reports whether the queue has reached MaxBytes, with pending bytes about
// to be written. A single segment never fills it: that could not be let go,
// however much of it is delivered. Callers hold mu.
func (q *Queue) isFull(pending int64) bool {
	return q.opts.MaxBytes > 0 && len(*q.segments.Load()) > 1 && q.bytes()+pending >= q.opts.MaxBytes
}

// committer is what the commit loop alone knows.
type committer struct {
	active *segment      // nil when the last one failed or none was begun since Open
	file   File          // of active
	isNew  bool          // active has no name yet and is not among Queue.segments
	epoch  uint64        // of the newest segment ever begun
	ended  chan struct{} // closed when the commit loop has returned
}

// commitLoop writes what was appended, commit after commit: everything that
// arrived while one was being written is the next. There is no timer.
func (q *Queue) commitLoop() {
	defer close(q.committer.ended)
	defer q.closeActive()
	for {
		select {
		case <-q.work:
		case <-q.stop:
			// Append has ended: closed was set before. What is pending is the
			// last commit, and gets one attempt.
			if c := q.take(); len(c.frames) > 0 {
				if err := q.write(c); err != nil {
					q.fail(err)
					return
				}
				q.publish(c)
			}
			return
		}
		c := q.take()
		if !q.writeUntilDurable(c) {
			return
		}
		q.publish(c)
	}
}

// rewriteTail writes the frames that recovery has made pending. When the disk
// does not take them, the commit loop goes on trying.
func (q *Queue) rewriteTail() {
	n := len(q.pending.frames)
	if n == 0 {
		close(q.recovered)
		return
	}
	q.pending.frames[n-1].settled = func() { close(q.recovered) }
	if err := q.write(q.pending); err != nil {
		q.fail(err)
		wake(q.work)
		return
	}
	q.publish(q.take())
}

// take makes the pending commit the one to write, and lets Append gather anew.
func (q *Queue) take() *commit {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.pending
	q.pending, q.spare = q.spare, nil
	return c
}

// writeUntilDurable writes c again and again, each time to a fresh segment,
// until the disk has it. It returns false when the queue closes first.
func (q *Queue) writeUntilDurable(c *commit) bool {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(time.Second), // a person who frees the disk should not wait
		backoff.WithMaxElapsedTime(0))
	for {
		err := q.write(c)
		if err == nil {
			return true
		}
		q.fail(err)
		select {
		case <-time.After(pause.NextBackOff()):
		case <-q.stop:
			return false
		}
	}
}

// write makes c durable in the active segment, or in a new one when there is no
// room or no active one.
func (q *Queue) write(c *commit) error {
	w := &q.committer
	if w.active != nil && w.active.end.Load()+int64(len(c.buf)) > q.opts.SegmentBytes && w.active.end.Load() > segmentHeaderSize {
		q.closeActive()
	}
	began := time.Now()
	if w.active == nil {
		if err := q.beginSegment(); err != nil {
			return err
		}
	}
	at := w.active.end.Load()
	first := q.durable.Load() + 1
	seq := first
	for _, f := range c.frames {
		b := c.buf[f.at:]
		place(b, w.active.epoch, at, seq)
		seq += uint64(le.Uint32(b[atCount:]))
	}
	if _, err := w.file.WriteAt(c.buf, at); err != nil {
		return fmt.Errorf("segment %s: write at %d: %w", w.active, at, err)
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("segment %s: sync: %w", w.active, err)
	}
	if w.isNew {
		if err := q.takeOver(); err != nil {
			return err
		}
	}
	if q.opts.Committed != nil {
		q.opts.Committed(int(seq-first), time.Since(began))
	}
	return nil
}

// beginSegment makes a new segment the active one. It is part of the queue only
// once its first commit is durable.
func (q *Queue) beginSegment() error {
	w := &q.committer
	w.epoch++
	name := segmentName{firstSeq: q.durable.Load() + 1, epoch: w.epoch}
	header := segmentHeader{queue: q.id}
	if last := q.lastSegment(); last != nil {
		header.prevEpoch, header.prevEnd = last.epoch, last.end.Load()
	}
	f, err := createSegment(q.opts.FS, q.opts.Directory, header, name)
	if err != nil {
		return err
	}
	w.active, w.file, w.isNew = newSegment(name, segmentHeaderSize), f, true
	return nil
}

// lastSegment returns the segment that cursors see last, nil when there is none.
// Only the committer changes which that is.
func (q *Queue) lastSegment() *segment {
	if kept := *q.segments.Load(); len(kept) > 0 {
		return kept[len(kept)-1]
	}
	return nil
}

// takeOver makes the new segment, whose first commit is synced, the last one of
// the queue. The one before it ends where it is durable: what a failed commit
// has left there is not part of it.
func (q *Queue) takeOver() error {
	w := &q.committer
	if err := nameSegment(q.opts.FS, q.opts.Directory, w.active.segmentName); err != nil {
		return err
	}
	w.isNew = false
	q.mu.Lock()
	defer q.mu.Unlock()
	if last := q.lastSegment(); last != nil {
		last.until.Store(w.active.firstSeq)
		q.checkpointUpTo(last)
	}
	next := slices.Concat(*q.segments.Load(), []*segment{w.active})
	q.segments.Store(&next)
	return nil
}

// checkpointUpTo has the housekeeper write what the log adds up to at the end of
// s, which is now. Callers hold mu.
func (q *Queue) checkpointUpTo(s *segment) {
	q.housekeeper.checkpoint = &checkpoint{
		Queue: q.id, Epoch: s.epoch, End: s.end.Load(), NextSeq: q.durable.Load() + 1, state: q.snapshot(),
	}
	wake(q.dirty)
}

// snapshot returns the state as of now, without producers long gone. Callers
// hold mu.
func (q *Queue) snapshot() *state {
	q.state.forgetProducers(time.Now())
	return q.state.clone()
}

// fail gives up the active segment after a failed write or sync: what the disk
// did with it is unknown, and a second sync would say yes to lost data.
func (q *Queue) fail(err error) {
	q.abandonActive()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.health.Err == nil {
		q.health.Since = time.Now()
	}
	// The text names another segment each time, so it is the cause that tells
	// whether this is news.
	if q.health.Err == nil || rootCause(q.health.Err) != rootCause(err) {
		q.opts.Log.Error("queue cannot write: nothing new is acknowledged until it can", "error", err)
	}
	q.health.Err = err
}

// rootCause is what the operating system has said or, without that, the text of
// the innermost error.
func rootCause(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err.Error()
}

// abandonActive ends the active segment after a failed write. The file of a new
// one is removed: a disk that fails for long must not fill up with attempts. If
// it had got its name already, or cannot be removed, it holds a commit that the
// next segment holds too, and which counts there.
func (q *Queue) abandonActive() {
	w := &q.committer
	if w.active != nil && w.isNew {
		for _, name := range []string{newSegmentFile, w.active.String()} {
			if err := q.opts.FS.Remove(q.path(name)); err != nil && !notExist(err) {
				q.opts.Log.Debug("abandoned segment stays", "file", name, "error", err)
			}
		}
	}
	q.closeActive()
}

// publish shows a durable commit to cursors and tells its producers.
func (q *Queue) publish(c *commit) {
	w := &q.committer
	last := q.durable.Load()
	q.mu.Lock()
	for _, p := range c.frames {
		f, err := parseHeader(c.buf[p.at:])
		if err != nil {
			panic(fmt.Sprintf("queue: own frame: %v", err)) // memory is damaged: nothing may be acknowledged
		}
		q.state.add(&f)
		last = f.end() - 1
	}
	if q.health.Err != nil {
		q.opts.Log.Info("queue writes again", "after", time.Since(q.health.Since).Round(time.Millisecond).String())
		q.health = Health{}
	}
	w.active.end.Add(int64(len(c.buf)))
	q.durable.Store(last)
	q.mu.Unlock()

	q.committed.broadcast()
	for _, p := range c.frames {
		if p.settled != nil {
			p.settled()
		}
	}

	c.reset()
	if cap(c.buf) > 2*commitBytes {
		c.buf = nil // one huge record must not pin its memory
	}
	q.mu.Lock()
	q.spare = c
	if len(q.pending.frames) > 0 {
		wake(q.work)
	}
	q.mu.Unlock()
	q.room.broadcast()
}

// closeActive ends the active segment. Its file may be closed without an error
// mattering: all that counts in it was synced.
func (q *Queue) closeActive() {
	w := &q.committer
	if w.active != nil {
		w.file.Close()
		w.active, w.file, w.isNew = nil, nil, false
	}
}

func (q *Queue) path(name ...string) string {
	return filepath.Join(append([]string{q.opts.Directory}, name...)...)
}
