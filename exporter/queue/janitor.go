package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/internal/signal"
)

const (
	// tidyPause keeps the janitor from syncing the cursors file after every
	// batch. A crash delivers again what was delivered in this time.
	tidyPause = 100 * time.Millisecond

	reserveBytes = 256 << 10
)

// janitor does what must become durable but keeps nobody waiting: cursors,
// checkpoints, and the removal of segments that are done with.
type janitor struct {
	dir disk.Path // of the queue; set by Open
	// checkpoint is the newest one not yet written; guarded by Queue.mu.
	checkpoint *state.Checkpoint
	// damageMet says that damage was met which no checkpoint has yet; guarded by Queue.mu.
	damageMet bool
	// looks counts how often the janitor has looked at the accounts in order to write
	// them; savedLook is the last of them whose accounts are durable. Both guarded by
	// Queue.mu; saved is broadcast when savedLook has moved.
	looks, savedLook uint64
	saved            signal.Signal
	// written is what the cursors file holds durably. Set by the janitor, with Queue.mu; a map
	// that was set is not changed.
	written map[string]Account

	// The rest is the janitor's own.
	cursors *state.CursorFile // nil while none could be made
	base    state.Checkpoint  // what the positions file holds
	covered uint64            // the epoch up to which a durable checkpoint counts
	doomed  []*liveSegment    // no longer part of the queue, to be removed
	passed  []*liveSegment    // doomed once the cursors and a checkpoint are durable
	held    []*liveSegment    // removed while a reader still has the file open
	reserve bool              // the reserve file was written by this docket
	err     error             // of the last round, nil when it did everything
	said    outage.Log
}

// janitorLoop tidies up whenever there is something to do, and once more after the
// committer has ended.
func (q *Queue) janitorLoop() {
	h := &q.janitor
	defer h.close()
	ground := time.NewTicker(disk.LookEvery) // an idle queue loses its directory too
	defer ground.Stop()
	aged := q.retainedAge()
	for {
		select {
		case <-q.dirty:
		case <-q.urgent:
		case <-aged:
		case <-ground.C:
			if q.checkGround() == nil && !h.cursorsRemoved() {
				continue
			}
		case <-q.stop:
			<-q.committer.ended
			q.tidy()
			return
		}
		q.tidy()
		aged = q.retainedAge() // which a Reconfigure may have changed
		select {
		case <-time.After(tidyPause):
		case <-q.urgent:
			wake(q.urgent)
		case <-q.stop:
		}
	}
}

// retainedAge fires when retained segments may have become too old.
func (q *Queue) retainedAge() <-chan time.Time {
	q.mu.Lock()
	age := q.opts.Retain.MaxAge
	q.mu.Unlock()
	if age == 0 {
		return nil
	}
	return time.After(min(time.Minute, age))
}

func (h *janitor) close() {
	if h.cursors != nil {
		h.cursors.File.Close()
		h.cursors = nil
	}
}

// tidy makes a round. What fails is tried again in a later one: cursors behind
// what was delivered, and segments kept too long, lose nothing.
func (q *Queue) tidy() {
	h := &q.janitor
	if err := q.checkGround(); err != nil {
		h.err = err
		wake(q.dirty)
		return
	}
	round := func() {
		h.err = q.tidyRound()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.space.stuck = h.err != nil // which evict goes by: nobody comes back to what it left
	}
	round()
	if isFullDisk(h.err) && h.releaseReserve() {
		round()
	}
	for h.err == nil && q.evict() {
		round()
	}
	q.trim()
	if h.err == nil {
		if _, news := h.said.Works(); news {
			q.opts.Log.Info("queue removes delivered records again")
		}
		h.keepReserve()
		return
	}
	wake(q.dirty)
	if h.said.Fails(outage.Cause(h.err)) {
		q.opts.Log.Error("queue cannot remove delivered records", "error", h.err)
	}
}

// tidyRound does all that it can: a step that fails does not keep the others,
// which may be what makes room for it.
//
// An account may have passed damage. The checkpoint that knows of the damage comes first, or
// a kill in between would leave a segment that is removed instead of moving to quarantine.
func (q *Queue) tidyRound() error {
	q.mu.Lock()
	accounts := q.accounts()
	q.janitor.looks++
	look := q.janitor.looks
	q.mu.Unlock()
	return errors.Join(q.writeCheckpoint(), q.writeCursors(accounts, look), q.removeDone())
}

func (q *Queue) writeCursors(accounts map[string]Account, look uint64) (err error) {
	h := &q.janitor
	if h.cursorsRemoved() {
		q.opts.Log.Warn("the file cursors was removed: docket writes it again")
		h.close()
	}
	if h.cursors != nil {
		if err = h.cursors.Confirm(); err == nil && !maps.Equal(accounts, h.written) {
			err = h.cursors.Write(accounts)
		}
		if errors.Is(err, syscall.EBADF) { // it could only be opened for reading, as on a disk that was read-only
			h.close()
		}
	}
	if h.cursors == nil {
		h.cursors, err = state.CreateCursorFile(q.opts.FS, q.opts.Directory, q.id, accounts)
	}
	if err != nil {
		return err
	}
	q.mu.Lock()
	h.written, h.savedLook = accounts, look
	q.mu.Unlock()
	q.janitor.saved.Broadcast()
	return nil
}

// writeCheckpoint writes the newest checkpoint or, when only damage was met
// since, the last one with that.
func (q *Queue) writeCheckpoint() error {
	h := &q.janitor
	q.mu.Lock()
	next, met := h.checkpoint, h.damageMet
	if next == nil && met {
		again := h.base
		next = &again
	}
	if next != nil {
		next.Lost = slices.Clone(q.state.Lost)
		next.Damaged = damagedOf(slices.Concat(h.doomed, h.passed, *q.segments.Load()))
	}
	h.damageMet = false
	q.mu.Unlock()
	if next == nil {
		return nil
	}
	if err := state.WriteCheckpoint(q.opts.FS, q.opts.Directory, *next); err != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		h.damageMet = h.damageMet || met
		return err
	}
	h.base, h.covered = *next, next.Epoch
	q.mu.Lock()
	defer q.mu.Unlock()
	if h.checkpoint == next {
		h.checkpoint = nil
	}
	return nil
}

// damagedOf are the epochs of those segments that must go to quarantine.
func damagedOf(segments []*liveSegment) (epochs []uint64) {
	for _, s := range segments {
		if s.damaged.Load() {
			epochs = append(epochs, s.Epoch)
		}
	}
	return epochs
}

// removeDone lets go of the segments whose records, if they have any, every sink
// has passed durably, and whose frames a checkpoint covers.
func (q *Queue) removeDone() error {
	h := &q.janitor
	h.doomed = append(h.doomed, q.unlistDone()...)
	if h.written != nil && h.covered > 0 {
		h.doomed, h.passed = append(h.doomed, h.passed...), nil
	}
	defer q.countLeaving()
	if len(h.doomed) == 0 {
		return nil
	}
	for len(h.doomed) > 0 {
		if err := q.remove(h.doomed[0]); err != nil {
			return err
		}
		h.doomed = h.doomed[1:]
	}
	if err := q.opts.FS.SyncDir(q.opts.Directory); err != nil {
		return err
	}
	wake(q.prepare)
	return nil
}

// countLeaving adds up the files that are no longer part of the queue and still
// take space, and wakes appends that wait for room.
func (q *Queue) countLeaving() {
	h := &q.janitor
	q.mu.Lock()
	defer q.mu.Unlock()
	h.held = slices.DeleteFunc(h.held, func(s *liveSegment) bool { return s.readers == 0 })
	before := q.space.leaving
	q.space.leaving = 0
	for _, s := range slices.Concat(h.doomed, h.held) {
		q.space.leaving += s.size.Load()
	}
	if q.space.turnedAway > 0 && !q.isFull() {
		q.space.turnedAway = 0
		q.room.Broadcast()
	} else if q.space.leaving < before {
		q.room.Broadcast() // a commit may be waiting for the disk
	}
}

// unlistDone takes out of the queue what may go.
func (q *Queue) unlistDone() (done []*liveSegment) {
	h := &q.janitor
	q.mu.Lock()
	accounts := q.accounts() // a sink may have come since the cursors were written
	kept := *q.segments.Load()
	for i, s := range kept {
		// The last one says again what the positions file says, in case that is
		// lost, and goes only for the sake of new records.
		if i == len(kept)-1 && !q.needsRoom() {
			break
		}
		if s.Epoch <= h.covered && q.isDone(s, h.written) && q.isDone(s, accounts) {
			done = append(done, s)
		}
	}
	stay := q.retained(done)
	done = slices.DeleteFunc(done, func(s *liveSegment) bool { return stay[s] })
	var rest []*liveSegment
	for _, s := range kept {
		if s.gone = slices.Contains(done, s); !s.gone {
			rest = append(rest, s)
		}
	}
	if len(done) > 0 {
		q.setSegments(rest)
	}
	for _, s := range done {
		q.space.leaving += s.size.Load()
	}
	var left []disk.File
	for _, c := range q.cursors {
		if !c.reading {
			left = append(left, c.leaveIfGone())
		}
	}
	q.mu.Unlock()
	for _, file := range left {
		closeFile(file)
	}
	if len(done) > 0 {
		q.committed.Broadcast() // a cursor that waits there closes the file
	}
	return done
}

var errDamaged = errors.New("it has bytes that cannot be read")

// remove takes a segment out of the directory. When a crash brings the name back, the segment is
// found below every cursor and removed again.
func (q *Queue) remove(s *liveSegment) error {
	if s.damaged.Load() {
		return q.quarantine.move(s.String(), errDamaged)
	}
	q.mu.Lock()
	if s.readers > 0 {
		q.janitor.held = append(q.janitor.held, s)
	}
	q.mu.Unlock()
	if err := q.janitor.dir.Join(s.String()).Remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("segment %s: remove: %w", s, err)
	}
	return nil
}

// trim gives back what segments that were closed early do not use. The rest of
// such a file is beyond the segment's end, and never read. Where that fails, the
// file stays as large as it is until the segment goes.
func (q *Queue) trim() {
	q.mu.Lock()
	var early []*liveSegment
	for _, s := range *q.segments.Load() {
		if s.sealed && !s.trimmed && s.size.Load()-alignBlock(s.end.Load()) > q.opts.SegmentBytes/4 {
			s.trimmed = true
			early = append(early, s)
		}
	}
	q.mu.Unlock()
	for _, s := range early {
		size := alignBlock(s.end.Load())
		f, err := q.opts.FS.Open(q.path(s.String()))
		if err == nil {
			err = errors.Join(f.Truncate(size), f.Close())
		}
		if err != nil {
			q.opts.Log.Debug("segment closed early keeps its size", "segment", s.String(), "error", err)
			continue
		}
		s.size.Store(size)
		q.mu.Lock()
		q.space.countFiles(*q.segments.Load())
		q.mu.Unlock()
		q.room.Broadcast()
	}
}

// releaseReserve gives the reserved space to the file system, also what an earlier
// docket reserved, and reports whether there was any.
func (h *janitor) releaseReserve() bool {
	h.reserve = false
	return h.dir.Join(state.ReserveFile).Remove() == nil
}

// keepReserve takes space for a bad hour. A disk that has none left will be full
// in a moment, and says so elsewhere.
func (h *janitor) keepReserve() {
	if h.reserve {
		return
	}
	h.reserve = h.dir.Join(state.ReserveFile).Replace(make([]byte, reserveBytes)) == nil
}

// saveAccounts returns once the accounts, as they are now, are durable.
func (q *Queue) saveAccounts(ctx context.Context) error {
	q.mu.Lock()
	goal := q.janitor.looks + 1 // the next look sees the accounts as they are now
	q.mu.Unlock()
	for {
		saved := q.janitor.saved.Wait()
		q.mu.Lock()
		durable := q.janitor.savedLook >= goal
		q.mu.Unlock()
		if durable {
			return nil
		}
		wake(q.urgent)
		select {
		case <-saved:
		case <-q.stop:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
