package queue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/disk"
)

// gather adds to the batch what is durable and has room in it; full is true when
// the batch should go now.
func (c *Cursor) gather(lim Limits) (full bool, err error) {
	for {
		if c.addRecords(lim) {
			return true, nil
		}
		if c.next > c.q.durable.Load() {
			return c.holds(lim.Records, lim.Bytes), nil
		}
		switch err := c.readFrame(); {
		case errors.Is(err, segment.ErrNoRoom) && len(c.batch) > 0:
			return true, nil // the buffer is full of this batch
		case errors.Is(err, segment.ErrNoRoom):
			c.reader.Release()
		case err != nil:
			return false, fmt.Errorf("cursor %s: %w", c.name, err)
		}
	}
}

// addRecords moves records from the frame to the batch and reports whether the
// batch is full.
func (c *Cursor) addRecords(lim Limits) bool {
	for len(c.payload) > 0 {
		n := bytes.IndexByte(c.payload, '\n')
		if n < 0 {
			n = len(c.payload) // a payload ends in a newline; its checksum held
		}
		if len(c.batch) > 0 && (len(c.batch) >= lim.mostRecords() || c.size+n > lim.mostBytes()) {
			return true
		}
		c.batch = append(c.batch, Record{
			Seq:         c.next,
			Incarnation: c.starter,
			Source:      c.names.Source,
			Producer:    c.names.Producer,
			Received:    time.Unix(0, c.frame.Received).UTC(),
			Data:        c.payload[:n:n],
		})
		c.size += n
		c.next++
		c.payload = c.payload[min(n+1, len(c.payload)):]
	}
	return c.holds(lim.mostRecords(), lim.mostBytes())
}

// holds reports whether the batch has so many records or bytes.
func (c *Cursor) holds(records, bytes int) bool {
	return len(c.batch) >= records || (len(c.batch) > 0 && c.size >= bytes)
}

// readFrame makes the frame with the record next the current one, passing over
// damage, or returns without one when next is not durable.
func (c *Cursor) readFrame() error {
	for {
		// In this order: all that is durable by then lies before end.
		last := c.q.durable.Load()
		if c.next > last {
			return nil
		}
		if c.segment == nil || c.next >= c.segment.until.Load() {
			if err := c.enterSegment(last); err != nil {
				return err
			}
			continue
		}
		end := c.segment.end.Load()
		f, err := c.reader.Peek(end)
		if err == nil && f.End() <= c.next {
			c.reader.Skip(&f) // before the cursor, or without records
			continue
		}
		if err == nil && f.FirstSeq > c.next {
			c.lose(f.FirstSeq)
			continue
		}
		var payload []byte
		if err == nil {
			f, payload, err = c.reader.Next(end)
		}
		switch {
		case err == nil:
			c.setFrame(f, payload)
			return nil
		case errors.Is(err, io.EOF):
			// All that is durable here was read, and next was not among it.
			c.lose(min(c.segment.until.Load(), last+1))
		case segment.IsDamage(err):
			if err := c.passDamage(end, last, err); err != nil {
				return fmt.Errorf("segment %s: %w", c.segment, err)
			}
		default:
			return fmt.Errorf("segment %s: %w", c.segment, err)
		}
	}
}

func (c *Cursor) setFrame(f segment.Frame, payload []byte) {
	for seq := f.FirstSeq; seq < c.next; seq++ { // the cursor starts within the frame
		payload = payload[bytes.IndexByte(payload, '\n')+1:]
	}
	c.frame, c.payload = f, payload
	c.names.Set(f.Source, f.Producer)
	c.starter = c.q.lineage.At(f.FirstSeq)
}

// enterSegment opens the segment that has the record next. What is missing on
// the way to it, up to last, is lost.
func (c *Cursor) enterSegment(last uint64) error {
	if len(c.batch) > 0 {
		return segment.ErrNoRoom // the buffer holds the batch: it ends with the segment
	}
	c.leaveSegment()
	s := c.findSegment()
	if s == nil {
		if !c.passDropped() {
			c.lose(last + 1)
		}
		return nil
	}
	if c.next < s.FirstSeq {
		c.q.release(s)
		c.lose(s.FirstSeq)
		return nil
	}
	err := c.q.checkGround() // what has the name elsewhere is another queue's
	var file disk.File
	if err == nil {
		file, err = c.q.opts.FS.Open(c.q.path(s.String()))
	}
	if err != nil {
		c.q.release(s)
		if errors.Is(err, fs.ErrNotExist) && c.passDropped() {
			return nil
		}
		return fmt.Errorf("segment %s: open: %w", s, err)
	}
	c.segment, c.file = s, file
	c.reader.Open(file, s.Epoch)
	return nil
}

// findSegment returns the first segment that ends behind the record next, nil when
// there is none, or next was dropped. Its file counts as open until release.
func (c *Cursor) findSegment() *liveSegment {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if c.next < c.account.Next {
		return nil
	}
	for _, s := range *c.q.segments.Load() {
		if c.next < s.until.Load() {
			s.readers++
			return s
		}
	}
	return nil
}

func (q *Queue) release(s *liveSegment) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.readers--
	if s.gone {
		wake(q.dirty) // its space is free now
	}
}

func (c *Cursor) leaveSegment() {
	c.q.mu.Lock()
	file := c.leave()
	c.q.mu.Unlock()
	closeFile(file)
}

// passDamage moves the reader to the next whole frame, or to end.
func (c *Cursor) passDamage(end int64, last uint64, cause error) error {
	if len(c.batch) > 0 {
		return segment.ErrNoRoom // the search needs the buffer that the batch lies in
	}
	from := c.reader.Off
	c.reader.Step(end)
	// The frame behind the damage may begin before next, when this sink had
	// passed a part of it.
	f, err := c.reader.Resync(c.segment.FirstSeq, end)
	resume, to := f.FirstSeq, c.reader.Off
	if errors.Is(err, io.EOF) {
		resume, to = last+1, end
	} else if err != nil {
		c.reader.MoveTo(from)
		return err
	}
	c.q.meetDamage(c.segment, from, to, cause)
	c.lose(min(resume, c.segment.until.Load()))
	return nil
}

// lose passes over the records from next up to seq: damage has taken them.
func (c *Cursor) lose(seq uint64) {
	if seq <= c.next {
		return
	}
	r := segment.SeqRange{From: c.next, To: seq}
	c.q.reportLost(r) // before an account can pass it: see tidyRound
	c.q.mu.Lock()
	c.holes = append(c.holes, r)
	c.q.mu.Unlock()
	c.next = seq
}
