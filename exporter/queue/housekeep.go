package queue

import (
	"fmt"
	"maps"
	"math"
	"time"
)

// tidyPause keeps the housekeeper from syncing the cursors file after every
// batch. A crash delivers again what was delivered in this time.
const tidyPause = 100 * time.Millisecond

// housekeeper does what must become durable but keeps nobody waiting: cursors,
// checkpoints, and the removal of segments that are done with.
type housekeeper struct {
	// checkpoint is the newest one not yet written; guarded by Queue.mu.
	checkpoint *checkpoint

	// The rest is the housekeeper's own.
	cursors *cursorFile
	written map[string]Account // what the cursors file holds
	covered uint64             // the epoch up to which a written checkpoint reaches
	err     error              // of the last round, nil when it did everything
}

// housekeep tidies up whenever there is something to do, and once more after the
// committer has ended.
func (q *Queue) housekeep() {
	h := &q.housekeeper
	defer func() { h.cursors.file.Close() }()
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

// tidy makes a round. What fails is tried again in a later one: cursors behind
// what was delivered, and segments kept too long, lose nothing.
func (q *Queue) tidy() {
	h := &q.housekeeper
	before := h.err
	h.err = q.tidyRound()
	if h.err != nil {
		wake(q.dirty)
		if before == nil || before.Error() != h.err.Error() {
			q.opts.Log.Error("queue cannot be tidied: delivered records are kept", "error", h.err)
		}
	}
}

func (q *Queue) tidyRound() error {
	h := &q.housekeeper
	q.mu.Lock()
	accounts := q.accounts()
	check := h.checkpoint
	q.mu.Unlock()

	if !maps.Equal(accounts, h.written) {
		if err := h.cursors.write(accounts); err != nil {
			return err
		}
		h.written = accounts
	}
	if check != nil {
		if err := writeCheckpoint(q.opts.FS, q.opts.Directory, *check); err != nil {
			return err
		}
		h.covered = check.Epoch
		q.mu.Lock()
		if h.checkpoint == check {
			h.checkpoint = nil
		}
		q.mu.Unlock()
	}
	return q.removeDone()
}

// removeDone deletes the segments whose records every sink has passed durably
// and whose frames a checkpoint covers.
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
	n := 0
	// The last segment stays, and with it the number of the last record.
	for n < len(kept)-1 && kept[n].until.Load() <= oldest && kept[n].epoch <= h.covered {
		n++
	}
	done, rest := kept[:n], kept[n:]
	if len(h.written) == 0 {
		done, rest = nil, kept // no sink has said that it is done
	}
	q.segments.Store(&rest)
	q.mu.Unlock()

	for _, s := range done {
		if err := q.removeSegment(s.segmentName); err != nil {
			return err
		}
	}
	if len(done) == 0 {
		return nil
	}
	q.room.broadcast()
	return q.opts.FS.SyncDir(q.opts.Directory)
}

// removeSegment unlinks a segment. When a crash brings its name back, it is
// found below every cursor and removed again.
func (q *Queue) removeSegment(name segmentName) error {
	if err := q.opts.FS.Remove(q.path(name.String())); err != nil && !notExist(err) {
		return fmt.Errorf("segment %s: remove: %w", name, err)
	}
	return nil
}
