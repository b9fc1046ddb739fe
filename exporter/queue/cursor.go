package queue

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// Limits bound what one Next returns.
type Limits struct {
	Records int           // at least 1
	Bytes   int           // of Data; a first record larger than this comes alone
	Wait    time.Duration // how long a record may wait, since it was received, for others to join it
	// Most bounds a batch of a backlog instead of Records and Bytes: it may hold up to Most of
	// the records that are already durable. Values below Records and Bytes have no effect.
	Most struct{ Records, Bytes int }
}

func (l Limits) mostRecords() int { return max(l.Records, l.Most.Records) }

func (l Limits) mostBytes() int { return max(l.Bytes, l.Most.Bytes) }

// Cursor is one sink's position in the queue. Next is for one goroutine; the
// methods that mark records as done may be called from another.
type Cursor struct {
	q    *Queue
	name string

	// These are guarded by q.mu.
	account     Account            // what is done
	holes       []segment.SeqRange // damaged ranges between account.Next and next, in order
	returned    uint64             // seq of the last record that Next has returned, or passed as damaged
	outstanding []returned         // batches that are not done, in order
	gathering   returned           // the batch that Next is at work on; its last seq is not known yet

	next uint64 // the seq that Next will return next

	// reading is true during Next; guarded by q.mu. While it is not, the janitor may take
	// the file from a cursor whose segment is gone.
	reading bool
	segment *liveSegment // being read; nil before the first read
	file    disk.File    // of segment
	reader  segment.Reader
	frame   segment.Frame // being returned record by record
	payload []byte        // of frame, from the record next on
	names   segment.Names // of frame
	starter string        // the incarnation that stored frame

	batch []Record
	size  int // bytes of Data in batch
}

// returned is what is remembered of a batch: when its first record was received,
// in Unix nanoseconds, and the seq of its last record.
type returned struct {
	received int64
	last     uint64
}

// Cursor returns the cursor of the sink name, at its last position. A sink that
// the queue does not know starts at the first kept record or, with fromNow,
// after the last; records before its start count as filtered. One sink has one
// cursor at a time; Close ends it.
func (q *Queue) Cursor(name string, fromNow bool) (*Cursor, error) {
	if name == "" || len(name) > math.MaxUint8 {
		return nil, fmt.Errorf("queue: cursor name must have 1 to %d bytes", math.MaxUint8)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.cursors[name]; ok {
		return nil, fmt.Errorf("queue: cursor %s is in use", name)
	}
	a, known := q.parked[name]
	if !known {
		if len(q.cursors)+len(q.parked) >= state.MaxCursors {
			return nil, fmt.Errorf("queue: at most %d cursors", state.MaxCursors)
		}
		if a = q.newAccount(fromNow); !q.accountsLost {
			a = a.ReplayedNow(time.Now()) // one that had its name before was another sink
		}
	}
	delete(q.parked, name)
	c := &Cursor{q: q, name: name, account: a, next: a.Next, returned: a.Next - 1}
	q.cursors[name] = c
	wake(q.dirty)
	return c, nil
}

// newAccount is that of a sink new to the queue. Callers hold mu.
func (p *published) newAccount(fromNow bool) Account {
	next := p.durable.Load() + 1
	for _, s := range *p.segments.Load() {
		if !fromNow && !s.released {
			next = s.FirstSeq
			break
		}
	}
	return Account{Next: next, Filtered: next - 1}
}

// Forget drops the account of a sink that has no cursor now, and the records
// that the queue keeps for the sink. It returns how many records were pending.
func (q *Queue) Forget(name string) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, ok := q.parked[name]
	if !ok {
		return 0
	}
	delete(q.parked, name)
	wake(q.dirty)
	return a.Pending(q.durable.Load())
}

// Close ends the cursor. The queue still keeps its records.
func (c *Cursor) Close() {
	c.leaveSegment()
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if c.q.cursors[c.name] == c {
		delete(c.q.cursors, c.name)
		c.q.parked[c.name] = c.account
	}
}

// Account returns the account of the sink. Safe at any time.
func (c *Cursor) Account() Account {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	return c.account
}

// OldestPending is when the first record that is not done was received. ok is
// false when there is none, or none has been read yet. Safe at any time.
func (c *Cursor) OldestPending() (t time.Time, ok bool) {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if c.account.Next > c.q.durable.Load() {
		return time.Time{}, false
	}
	oldest := c.gathering.received
	if len(c.outstanding) > 0 {
		oldest = c.outstanding[0].received
	}
	return time.Unix(0, oldest), oldest != 0
}

// Next waits for durable records and returns the next ones, in the order of
// their seq, at most what lim allows. It does not move the durable position:
// records that are not acked come again after a restart. The records and their
// bytes are valid until the next call.
//
// Damaged records are passed over, counted as corrupt and logged.
//
// Errors: the error of ctx, ErrClosed, or a segment that could not be read.
// After that error Next may be called again.
func (c *Cursor) Next(ctx context.Context, lim Limits) ([]Record, error) {
	c.setReading(true)
	defer c.setReading(false)
	clear(c.batch)
	c.reader.Capacity = lim.mostBytes() + segment.ReadSize/4 // a full batch and the frame it ends in
	c.keepUnread(c.size + segment.ReadSize/16)
	c.batch, c.size = c.batch[:0], 0
	c.passDropped()
	var timer *time.Timer
	var timeout <-chan time.Time
	for {
		changed := c.q.committed.Wait()
		full, err := c.gather(lim)
		c.countHoles()
		// What was gathered is returned whatever comes: a later call goes on
		// behind it. An error is met again then.
		if full || (err != nil && len(c.batch) > 0) {
			return c.batch, nil
		}
		if err != nil {
			return nil, err
		}
		if len(c.batch) > 0 && timer == nil {
			// Bounded by Wait, should the clock have been set back meanwhile.
			wait := min(lim.Wait, time.Until(c.batch[0].Received.Add(lim.Wait)))
			if wait <= 0 {
				return c.batch, nil
			}
			timer = time.NewTimer(wait)
			defer timer.Stop()
			timeout = timer.C
		}
		c.leaveGoneSegment()
		select {
		case <-changed:
		case <-timeout:
			return c.batch, nil
		case <-ctx.Done():
			err = fmt.Errorf("cursor %s: %w", c.name, context.Cause(ctx))
		case <-c.q.stop:
			err = ErrClosed
		}
		if err != nil && len(c.batch) > 0 {
			return c.batch, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// advance moves the account to next and returns how many records it has passed
// that are not in a hole, for the caller to count. Callers hold q.mu.
func (c *Cursor) advance(next uint64) (passed uint64) {
	a := &c.account
	for a.Next < next {
		upTo := next
		if len(c.holes) > 0 {
			upTo = min(next, c.holes[0].From)
		}
		if upTo > a.Next {
			passed += upTo - a.Next
			a.Next = upTo
		}
		c.passHoles()
	}
	c.forgetDone()
	wake(c.q.dirty)
	return passed
}

// forgetDone drops the batches that are done. Callers hold q.mu.
func (c *Cursor) forgetDone() {
	n := 0
	for n < len(c.outstanding) && c.outstanding[n].last < c.account.Next {
		n++
	}
	c.outstanding = slices.Delete(c.outstanding, 0, n)
}

// passHoles counts the holes that begin where the account stands. Callers hold
// q.mu.
func (c *Cursor) passHoles() {
	a := &c.account
	for len(c.holes) > 0 && c.holes[0].From <= a.Next {
		if to := c.holes[0].To; to > a.Next { // else it was dropped with what is around it
			a.Corrupt += to - a.Next
			a.Next = to
		}
		c.holes = c.holes[1:]
	}
}

// countHoles passes damage that follows directly on what is done, so that a
// sink whose last pending records are lost does not wait for an Ack for ever.
func (c *Cursor) countHoles() {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if len(c.holes) == 0 && (len(c.batch) == 0 || c.gathering.received != 0) {
		return
	}
	if len(c.holes) > 0 {
		c.passHoles()
		wake(c.q.dirty)
	}
	if len(c.batch) > 0 {
		c.gathering.received = c.batch[0].Received.UnixNano()
	}
}

// keepUnread releases the bytes of the batch before, keeping the rest of the
// frame that it ended in, and makes room for the next one behind that.
func (c *Cursor) keepUnread(room int) {
	if len(c.payload) == 0 {
		c.reader.Release()
		c.reader.Compact(room)
		return
	}
	// What is left of the frame ends, with its padding, where the reader stands.
	n := len(c.payload) + c.frame.Size() - c.frame.HeaderLen - c.frame.PayloadLen
	c.reader.Unread(n)
	c.reader.Release()
	c.reader.Compact(room)
	c.payload = c.reader.Reread(n)[:len(c.payload)]
}

// passDropped goes on behind what the queue has dropped meanwhile.
func (c *Cursor) passDropped() bool {
	c.q.mu.Lock()
	next := c.account.Next
	c.q.mu.Unlock()
	if next <= c.next {
		return false
	}
	c.leaveSegment()
	c.next = next
	return true
}

// setReading says that Next begins or ends.
func (c *Cursor) setReading(reading bool) {
	c.q.mu.Lock()
	c.reading = reading
	c.gathering = returned{}
	if !reading && len(c.batch) > 0 {
		last := c.batch[len(c.batch)-1].Seq
		c.outstanding = append(c.outstanding, returned{received: c.batch[0].Received.UnixNano(), last: last})
	}
	c.returned = c.next - 1
	gone := c.leaveIfGone()
	c.q.mu.Unlock()
	closeFile(gone)
}

// leaveGoneSegment closes the file of a segment that is no longer part of the
// queue before Next waits.
func (c *Cursor) leaveGoneSegment() {
	if len(c.batch) > 0 {
		return // it may hold the last bytes of the segment
	}
	c.q.mu.Lock()
	gone := c.leaveIfGone()
	c.q.mu.Unlock()
	closeFile(gone)
}

// leaveIfGone takes the file from the cursor if its segment is no longer part of the queue:
// the file still takes space. Callers hold q.mu, close the file without it, and are Next or
// know that Next is not running.
func (c *Cursor) leaveIfGone() disk.File {
	if c.segment == nil || !c.segment.gone {
		return nil
	}
	wake(c.q.dirty) // its space is free now
	return c.leave()
}

// leave takes the file that is being read from the cursor. Callers hold q.mu, and close the
// file without it: the last close of a removed file frees its blocks, which takes time.
func (c *Cursor) leave() (file disk.File) {
	if c.segment != nil {
		c.segment.readers--
	}
	file = c.file
	c.segment, c.file, c.payload = nil, nil, nil
	return file
}

func closeFile(file disk.File) {
	if file != nil {
		file.Close()
	}
}
