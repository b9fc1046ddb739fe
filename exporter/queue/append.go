package queue

import (
	"context"
	"fmt"
	"hash/crc32"

	"github.com/docket-export/docket/exporter/queue/segment"
)

// maxCommitBytes and minCommitBytes bound how much one commit gathers before
// Append waits. That bounds the memory of the queue (two such buffers) and the
// time of one commit, and is large enough that the disk runs at full speed (from
// 256 KiB on, measured). Twice as much leaves the caches of the processor: the write
// then takes twice the system time, and records come in more slowly.
const (
	maxCommitBytes = 2 << 20
	minCommitBytes = 256 << 10
)

// commitLimit lets a segment hold several commits: what the last one leaves free
// in it is of no use.
func (o *Options) commitLimit() int {
	return int(min(maxCommitBytes, max(minCommitBytes, o.SegmentBytes/8)))
}

// commit is what one write and one sync make durable together.
type commit struct {
	buf    []byte // frames, one after another
	frames []pendingFrame
}

type pendingFrame struct {
	at      int    // offset in buf
	lines   uint64 // that were read for it
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
// must not block and is not called when the queue closes first: whether c is
// durable is not known then. c and its bytes may be reused on return.
//
// Append blocks while the commit being gathered is full, and while the queue is
// full. With DropOldest it blocks until the oldest segment is removed. A full queue also accepts a chunk without records, which only
// counts: segments with such chunks alone are removed whatever the sinks do.
//
// Errors: ErrClosed, the error of ctx, or a fault in c.
func (q *Queue) Append(ctx context.Context, c *Chunk, settled func()) error {
	if err := c.Check(); err != nil {
		return err
	}
	crc := crc32.Checksum(c.Records, castagnoli)
	for {
		room := q.room.Wait()
		first, ok, err := q.tryAppend(c, crc, settled)
		if first {
			wake(q.work)
		}
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

// AppendNow is Append for a caller that has nothing to do until c is durable. While
// no other commit is under way it makes the commit itself, and returns after
// settled; otherwise, and when the write fails, it works like Append. ctx does not
// end a commit: on a disk that hangs AppendNow does not return. Going through the
// commit loop costs two context switches, which take as long as a sync of a fast
// disk.
func (q *Queue) AppendNow(ctx context.Context, c *Chunk, settled func()) error {
	if !q.turn.TryLock() {
		return q.Append(ctx, c, settled)
	}
	ok, err := q.appendInTurn(c, settled)
	q.turn.Unlock()
	if ok || err != nil {
		return err
	}
	return q.Append(ctx, c, settled)
}

// appendInTurn appends c and commits all that is pending, with turn held; ok is
// false when there is no room.
func (q *Queue) appendInTurn(c *Chunk, settled func()) (ok bool, err error) {
	if q.committer.unwritten != nil { // which comes first
		return false, nil
	}
	if err := c.Check(); err != nil {
		return false, err
	}
	if _, ok, err = q.tryAppend(c, crc32.Checksum(c.Records, castagnoli), settled); !ok {
		return false, err
	}
	batch := q.nextCommit()
	if err := q.write(batch); err != nil {
		q.fail(err)
		q.committer.unwritten = batch
		wake(q.work)
		return true, nil
	}
	q.publish(batch)
	return true, nil
}

// tryAppend is Append without the waiting; ok is false when there is no room.
// first says that nothing was pending before.
func (q *Queue) tryAppend(c *Chunk, crc uint32, settled func()) (first, ok bool, err error) {
	size := c.FrameSize()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, false, ErrClosed
	}
	p := q.pending
	if c.Count > 0 && !q.hasRoom(size) {
		q.space.turnedAway = size
		wake(q.urgent)
		return false, false, nil
	}
	if len(p.buf) > 0 && len(p.buf)+size > q.opts.commitLimit() {
		return false, false, nil
	}
	if c.Count > 0 {
		q.space.turnedAway = 0
	}
	p.frames = append(p.frames, pendingFrame{at: len(p.buf), lines: uint64(c.Lines), settled: settled})
	if cap(p.buf)-len(p.buf) < size { // append would make more room than a commit has
		p.buf = append(make([]byte, 0, max(min(2*cap(p.buf), q.opts.commitLimit()+blockBytes), len(p.buf)+size+blockBytes)), p.buf...)
	}
	p.buf = segment.AppendFrame(p.buf, c, crc)
	return len(p.frames) == 1, true, nil
}
