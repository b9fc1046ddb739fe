package queue

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"syscall"
	"time"
)

const (
	// tidyPause keeps the housekeeper from syncing the cursors file after every
	// batch. A crash delivers again what was delivered in this time.
	tidyPause = 100 * time.Millisecond

	// reserveFile is given up when the disk is full, so that the checkpoint can
	// be written that lets delivered segments go.
	reserveFile  = "reserve"
	reserveBytes = 256 << 10
)

// housekeeper does what must become durable but keeps nobody waiting: cursors,
// checkpoints, and the removal of segments that are done with.
type housekeeper struct {
	// checkpoint is the newest one not yet written; guarded by Queue.mu.
	checkpoint *checkpoint
	// lostChanged says that damage was met which no checkpoint has yet; guarded
	// by Queue.mu.
	lostChanged bool

	// The rest is the housekeeper's own.
	cursors *cursorFile        // nil while none could be made
	written map[string]Account // what the cursors file holds durably
	base    checkpoint         // what the positions file holds
	covered uint64             // the epoch up to which a durable checkpoint counts
	doomed  []*segment         // no longer part of the queue, to be removed
	passed  []*segment         // doomed once the cursors and a checkpoint are durable
	reserve bool               // the reserve file is there
	err     error              // of the last round, nil when it did everything
}

// housekeep tidies up whenever there is something to do, and once more after the
// committer has ended.
func (q *Queue) housekeep() {
	h := &q.housekeeper
	defer h.close()
	for {
		select {
		case <-q.dirty:
		case <-q.stop:
			<-q.committer.ended
			q.tidy()
			return
		}
		q.tidy()
		select {
		case <-time.After(tidyPause):
		case <-q.stop:
		}
	}
}

func (h *housekeeper) close() {
	if h.cursors != nil {
		h.cursors.file.Close()
	}
}

// tidy makes a round. What fails is tried again in a later one: cursors behind
// what was delivered, and segments kept too long, lose nothing.
func (q *Queue) tidy() {
	h := &q.housekeeper
	before := h.err
	h.err = q.tidyRound()
	if errors.Is(h.err, syscall.ENOSPC) && q.releaseReserve() {
		h.err = q.tidyRound()
	}
	if h.err == nil {
		q.keepReserve()
		return
	}
	wake(q.dirty)
	if before == nil || rootCause(before) != rootCause(h.err) {
		q.opts.Log.Error("queue cannot be tidied: delivered records are kept", "error", h.err)
	}
}

// tidyRound does all that it can: a step that fails does not keep the others,
// which may be what makes room for it.
func (q *Queue) tidyRound() error {
	return errors.Join(q.writeCursors(), q.writeCheckpoint(), q.removeDone())
}

func (q *Queue) writeCursors() (err error) {
	h := &q.housekeeper
	q.mu.Lock()
	accounts := q.accounts()
	q.mu.Unlock()
	if h.cursors == nil {
		h.cursors, err = createCursorFile(q.opts.FS, q.opts.Directory, q.id, accounts)
	} else if err = h.cursors.confirm(); err == nil && !maps.Equal(accounts, h.written) {
		err = h.cursors.write(accounts)
	}
	if err == nil {
		h.written = accounts
	}
	return err
}

// writeCheckpoint writes the newest checkpoint or, when only damage was met
// since, the last one with that.
func (q *Queue) writeCheckpoint() error {
	h := &q.housekeeper
	q.mu.Lock()
	next, lostChanged := h.checkpoint, h.lostChanged
	if next == nil && lostChanged {
		again := h.base
		again.state = h.base.clone()
		next = &again
	}
	if next != nil {
		next.Lost = slices.Clone(q.state.Lost)
	}
	q.mu.Unlock()
	if next == nil {
		return nil
	}
	if err := writeCheckpoint(q.opts.FS, q.opts.Directory, *next); err != nil {
		return err
	}
	h.base, h.covered = *next, next.Epoch
	q.mu.Lock()
	defer q.mu.Unlock()
	if h.checkpoint == next {
		h.checkpoint = nil
	}
	h.lostChanged = len(q.state.Lost) != len(next.Lost) // more was met during the write
	return nil
}

// removeDone deletes the segments whose records, if they have any, every sink has
// passed durably, and whose frames a checkpoint covers.
func (q *Queue) removeDone() error {
	h := &q.housekeeper
	q.mu.Lock()
	kept := *q.segments.Load()
	oldest := uint64(math.MaxUint64)
	for _, a := range h.written {
		oldest = min(oldest, a.Next)
	}
	for _, a := range q.accounts() { // a sink may have come since
		oldest = min(oldest, a.Next)
	}
	var rest []*segment
	for i, s := range kept {
		// The last segment stays, and with it the number of the last record.
		// Without any sink nobody has said to be done.
		until := s.until.Load()
		done := until == s.firstSeq || (len(h.written) > 0 && until <= oldest)
		if i < len(kept)-1 && done && s.epoch <= h.covered {
			h.doomed = append(h.doomed, s)
		} else {
			rest = append(rest, s)
		}
	}
	q.segments.Store(&rest)
	q.mu.Unlock()
	if h.written != nil && h.covered > 0 {
		h.doomed, h.passed = append(h.doomed, h.passed...), nil
	}
	if len(h.doomed) == 0 {
		return nil
	}
	for len(h.doomed) > 0 {
		if err := q.letGo(h.doomed[0]); err != nil {
			return err
		}
		h.doomed = h.doomed[1:]
	}
	q.room.broadcast()
	return q.opts.FS.SyncDir(q.opts.Directory)
}

var errDamaged = errors.New("it has damage that could not be copied")

// letGo takes a segment out of the directory.
func (q *Queue) letGo(s *segment) error {
	if s.unreadable.Load() {
		return q.setAside(s.String(), errDamaged)
	}
	return q.removeSegment(s.segmentName)
}

// removeSegment unlinks a segment. When a crash brings its name back, it is
// found below every cursor and removed again.
func (q *Queue) removeSegment(name segmentName) error {
	if err := q.opts.FS.Remove(q.path(name.String())); err != nil && !notExist(err) {
		return fmt.Errorf("segment %s: remove: %w", name, err)
	}
	return nil
}

// releaseReserve gives the reserved space to the file system, once.
func (q *Queue) releaseReserve() bool {
	released := q.housekeeper.reserve && q.opts.FS.Remove(q.path(reserveFile)) == nil
	q.housekeeper.reserve = false
	return released
}

// keepReserve takes space for a bad hour. A disk that has none left will be full
// in a moment, and says so elsewhere.
func (q *Queue) keepReserve() {
	h := &q.housekeeper
	if h.reserve {
		return
	}
	h.reserve = replaceFile(q.opts.FS, q.path(reserveFile), make([]byte, reserveBytes)) == nil
}
