package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/outage"
)

// keptIncarnations bounds what a checkpoint says of removed segments. Sinks tell by the older
// incarnations how far they are with a queue that was set back.
const keptIncarnations = 64

// committer is the segment that is written to. Guarded by Queue.turn.
type committer struct {
	active   *liveSegment  // nil when the last one is full or failed, or none was begun since Open
	file     disk.File     // of active
	tempName string        // of file while active has no name yet and is not among Queue.segments
	last     *liveSegment  // that has a name, and perhaps is gone; nil when there never was one
	epoch    uint64        // of the newest segment ever begun
	ended    chan struct{} // closed when the commit loop has returned
	// unwritten is a commit that AppendNow could not write. It comes before all others.
	unwritten *commit
}

// commitLoop writes what was appended, commit after commit: everything that
// arrived while one was being written is the next. There is no timer.
func (q *Queue) commitLoop() {
	defer close(q.committer.ended)
	defer q.closeActive(nil)
	for {
		select {
		case <-q.work:
		case <-q.stop:
			q.turn.Lock() // for good: this commit is the last
			q.lastCommit()
			return
		}
		q.turn.Lock()
		ok := q.commitPending()
		q.turn.Unlock()
		if !ok {
			return
		}
	}
}

// commitPending makes one commit of what is pending, with turn held. It is false
// when the queue closes before the disk takes it.
func (q *Queue) commitPending() bool {
	if q.isAskedToClose() {
		q.closeActive(nil)
	}
	c := q.committer.unwritten
	q.committer.unwritten = nil
	if c == nil {
		if !q.hasPending() {
			return true
		}
		c = q.nextCommit()
	}
	if !q.writeUntilDurable(c) {
		return false
	}
	q.publish(c)
	q.endIncarnation()
	return true
}

// endIncarnation ends the active segment when the records that come next are of another
// incarnation: the segment holds the tail that recovery has written again, with the ids that the
// records have.
func (q *Queue) endIncarnation() {
	s := q.committer.active
	if s == nil || q.lineage.At(s.FirstSeq) == q.lineage.At(q.durable.Load()+1) {
		return
	}
	q.closeActive(nil)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.space.left = 0
}

// lastCommit makes the commit of a queue that closes: Append has ended, because
// closed was set before. It gets one attempt.
func (q *Queue) lastCommit() {
	if q.committer.unwritten != nil || !q.hasPending() {
		return
	}
	c := q.nextCommit()
	if err := q.write(c); err != nil {
		q.fail(err)
		return
	}
	q.publish(c)
}

// isAskedToClose reports whether the active segment has to be closed for it to go.
func (q *Queue) isAskedToClose() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	asked := q.space.closeLast
	q.space.closeLast = false
	if asked {
		q.space.left = 0
	}
	return asked
}

func (q *Queue) hasPending() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending.frames) > 0
}

// rewriteTail writes the frames that recovery has made pending. When the disk
// does not take them, the commit loop goes on trying. Nothing joins them: what comes next has
// other ids.
func (q *Queue) rewriteTail() {
	n := len(q.pending.frames)
	if n == 0 {
		close(q.recovered)
		return
	}
	c := q.swap()
	c.frames[n-1].settled = func() { close(q.recovered) }
	if err := q.write(c); err != nil {
		q.fail(err)
		q.committer.unwritten = c
		wake(q.work)
		return
	}
	q.publish(c)
	q.endIncarnation()
}

// nextCommit makes the pending commit the one to write, and lets Append gather anew.
func (q *Queue) nextCommit() *commit {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.swap()
	if size := int64(len(c.buf)); q.space.left < size {
		q.space.claimed, q.space.left = 1, q.opts.SegmentBytes-segment.HeaderSize-size
	} else {
		q.space.left -= size
	}
	return c
}

// swap is take without its accounts. Callers hold mu, or are Open.
func (b *books) swap() *commit {
	c := b.pending
	b.pending, b.spare = b.spare, nil
	return c
}

// writeUntilDurable writes c again and again, each time to a fresh segment,
// until the disk has it. It returns false when the queue closes first.
func (q *Queue) writeUntilDurable(c *commit) bool {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(time.Second), // an operator who frees the disk should not wait
		backoff.WithMaxElapsedTime(0))
	for {
		err := q.write(c)
		if err == nil {
			return true
		}
		room := q.room.Wait()
		q.fail(err)
		select {
		case <-time.After(pause.NextBackOff()):
		case <-room:
		case <-q.stop:
			return false
		}
	}
}

// write makes c durable in the active segment, or in a new one when there is no
// room or no active one.
func (q *Queue) write(c *commit) error {
	w := &q.committer
	if w.active != nil && !w.active.fits(len(c.buf), q.opts.SegmentBytes) {
		q.closeActive(nil)
	}
	began := time.Now()
	if w.active == nil {
		if err := q.checkGround(); err != nil {
			return err
		}
		if err := q.beginSegment(len(c.buf)); err != nil {
			return err
		}
	}
	at := w.active.end.Load()
	first := q.durable.Load() + 1
	seq := first
	for _, f := range c.frames {
		seq = segment.Place(c.buf[f.at:], w.active.Epoch, at, seq)
	}
	if err := w.writeWholeBlocks(c, at); err != nil {
		return fmt.Errorf("segment %s: write at %d: %w", w.active, at, err)
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("segment %s: sync: %w", w.active, err)
	}
	if err := q.checkActive(); err != nil {
		return err
	}
	if w.tempName != "" {
		if err := q.checkGround(); err != nil {
			return err
		}
		if err := q.activate(); err != nil {
			return err
		}
	}
	if q.opts.Committed != nil {
		q.opts.Committed(int(seq-first), time.Since(began))
	}
	return nil
}

// blockBytes is what the page cache reads from the disk before a part of it can be
// overwritten.
const blockBytes = 4096

func alignBlock(n int64) int64 { return (n + blockBytes - 1) &^ (blockBytes - 1) }

// writeWholeBlocks writes c and zeros up to the end of the block. Without them, a
// commit to a segment whose old content is no longer in memory would have to read
// that block first.
func (w *committer) writeWholeBlocks(c *commit, at int64) error {
	n := len(c.buf)
	c.buf = append(c.buf, zeros[:alignBlock(at+int64(n))-at-int64(n)]...)
	_, err := w.file.WriteAt(c.buf, at)
	c.buf = c.buf[:n]
	return err
}

// beginSegment makes a new segment the active one, for a commit of size bytes. It
// is part of the queue only once that is durable.
func (q *Queue) beginSegment(size int) error {
	w := &q.committer
	f, err := q.pool.get(alignBlock(segment.HeaderSize + int64(size)))
	if err != nil {
		return err
	}
	wake(q.prepare)
	w.epoch++
	name := segment.Name{FirstSeq: q.durable.Load() + 1, Epoch: w.epoch}
	header := segment.Header{Queue: q.id, Incarnation: uuid.MustParse(q.lineage.At(name.FirstSeq))}
	if w.last != nil {
		header.PrevEpoch, header.PrevEnd, header.PrevNewest = w.last.Epoch, w.last.end.Load(), w.last.newest.Load()
	}
	w.active, w.file, w.tempName = newSegment(name, segment.HeaderSize, f.size), f.File, f.name
	q.mu.Lock()
	q.space.claimed, q.space.left = 0, q.opts.SegmentBytes-segment.HeaderSize-int64(size)
	q.space.beginning = f.size
	q.mu.Unlock()
	return segment.WriteHeader(f, header, name)
}

// activate makes the new segment, whose first commit is synced, the last one of
// the queue. The one before it ends where it is durable: what a failed commit
// has left there is not part of it.
func (q *Queue) activate() error {
	w := &q.committer
	if err := nameSegment(q.opts.FS, q.opts.Directory, w.tempName, w.active.Name); err != nil {
		return err
	}
	w.tempName = ""
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.last != nil {
		w.last.until.Store(w.active.FirstSeq)
		q.seal(w.last)
	}
	w.last = w.active
	q.setSegments(slices.Concat(*q.segments.Load(), []*liveSegment{w.active}))
	q.space.beginning = 0
	return nil
}

// seal says that nothing is added to s any more. Callers hold mu.
func (q *Queue) seal(s *liveSegment) {
	if !s.sealed {
		s.sealed = true
		q.checkpointUpTo(s)
	}
}

// checkpointUpTo has the janitor write what the log adds up to at the end of
// s, which is now. Callers hold mu.
func (q *Queue) checkpointUpTo(s *liveSegment) {
	c := q.state.Checkpoint(time.Now())
	c.Queue, c.Epoch, c.End, c.Newest, c.NextSeq = q.id, s.Epoch, s.end.Load(), s.newest.Load(), q.durable.Load()+1
	// One that has stored nothing yet may never do so: another one may have the seqs then.
	c.Lineage = q.lineage.Before(c.NextSeq).Newest(keptIncarnations)
	q.janitor.checkpoint = c
	wake(q.dirty)
}

// fail gives up the active segment after a failed write or sync: what the disk
// did with it is unknown, and a second sync would say yes to lost data.
func (q *Queue) fail(err error) {
	q.closeActive(err)
	q.mu.Lock()
	say := q.setFailed(err)
	q.space.evicted = false
	q.mu.Unlock()
	say()
	wake(q.dirty) // what can go makes room
}

// setFailed notes that the queue cannot write, and why. Callers hold mu. They call say without
// it: a log that blocks must not stop the queue.
func (q *Queue) setFailed(err error) (say func()) {
	if q.failed == nil {
		q.since = time.Now()
	}
	q.failed = err
	if !q.said.Fails(outage.Cause(err)) { // the text names another segment each time
		return func() {}
	}
	return func() {
		q.opts.Log.Error("queue cannot write: docket acknowledges nothing new until it can", "error", err)
	}
}

// setWorks is setFailed once the queue can write again.
func (q *Queue) setWorks() (say func()) {
	if q.failed == nil {
		return func() {}
	}
	after := time.Since(q.since)
	q.failed, q.since = nil, time.Time{}
	if _, isNews := q.said.Works(); !isNews {
		return func() {}
	}
	return func() { q.opts.Log.Info("queue writes again", "after", after.Round(time.Millisecond).String()) }
}

// publish shows a durable commit to cursors and tells its producers.
func (q *Queue) publish(c *commit) {
	w := &q.committer
	last := q.durable.Load()
	newest := w.active.newest.Load()
	q.mu.Lock()
	for _, p := range c.frames {
		f, err := segment.ParseHeader(c.buf[p.at:])
		if err != nil {
			panic(fmt.Sprintf("queue: own frame: %v", err)) // memory is damaged: nothing may be acknowledged
		}
		q.state.Add(&f, p.lines)
		last, newest = f.End()-1, max(newest, f.Received)
	}
	say := q.setWorks()
	if len(c.buf) >= largeCommit {
		q.lastLarge = time.Now()
	}
	w.active.end.Add(int64(len(c.buf)))
	w.active.newest.Store(newest)
	q.durable.Store(last)
	q.mu.Unlock()
	say()

	q.committed.Broadcast()
	for _, p := range c.frames {
		if p.settled != nil {
			p.settled()
		}
	}

	c.reset()
	if cap(c.buf) > 2*maxCommitBytes {
		c.buf = nil // one huge record must not pin its memory
	}
	q.mu.Lock()
	q.spare = c
	if len(q.pending.frames) > 0 {
		wake(q.work)
	}
	q.mu.Unlock()
	q.room.Broadcast()
}

// closeActive ends the active segment: it is full, or cause is why a write or a
// sync has failed. Its file may be closed without an error mattering: all that
// counts in it was synced.
//
// The file of a segment without its first commit is removed: a disk that fails for
// long must not fill up with attempts. If it had got its name already, or cannot
// be removed, it holds a commit that the next segment holds too, and which counts
// there.
func (q *Queue) closeActive(cause error) {
	w := &q.committer
	s := w.active
	if s == nil {
		return
	}
	w.file.Close()
	if w.last != s && q.checkGround() == nil {
		for _, name := range []string{w.tempName, s.String()} {
			if err := q.opts.FS.Remove(q.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				q.opts.Log.Debug("abandoned segment stays", "file", name, "error", err)
			}
		}
	}
	w.active, w.file, w.tempName = nil, nil, ""
	q.mu.Lock()
	defer q.mu.Unlock()
	q.space.beginning = 0
	if cause != nil {
		q.space.left = 0
	}
	if w.last == s {
		q.seal(s)
	}
}
