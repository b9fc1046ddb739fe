package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// walk is one pass over the log, from the first kept record to the last. It
// reads every frame with its checksums and holds one frame at a time. Its
// functions may be nil; an error of one ends the pass.
type walk struct {
	o   *Offline
	ctx context.Context

	// frame is told of every whole frame. Its bytes are valid until it returns.
	frame func(s *storedSegment, f *frame, payload []byte) error
	// hole is told of bytes that had to be frames and are not.
	hole func(s *storedSegment, h hole) error
	// gap is told of records that are missing between two segments. One of them
	// is nil when the gap is before the first or behind the last.
	gap func(r SeqRange, after, before *storedSegment) error
	// tail is told where the log ends: in s, at the offset h.from. Up to h.to
	// stands what a write has left there that nobody was told about; mostly
	// there is nothing.
	tail func(s *storedSegment, h hole) error
	// unreadable is told of a segment that cannot be read from off on.
	unreadable func(s *storedSegment, off int64, err error) error
}

// hole is a range of offsets in a segment, and the records that it has taken.
type hole struct {
	from, to int64
	lost     SeqRange
	cause    error
	// torn says that the bytes begin like a frame of the segment's epoch.
	torn bool
	// last says that what is behind it is torn.
	last bool
}

// run walks over the segments that may hold records from seq from on.
func (w *walk) run(from uint64) error {
	next := w.o.firstMissed()
	var before *storedSegment
	for _, s := range w.o.segments {
		if s.until <= from && !s.isLast() {
			continue
		}
		if (before != nil || s == w.o.segments[0]) && next < s.firstSeq {
			if err := w.tellGap(SeqRange{From: next, To: s.firstSeq}, before, s); err != nil {
				return err
			}
		}
		end, _, err := w.segment(s)
		if err != nil {
			return err
		}
		before, next = s, end
	}
	if next < w.o.knownDurable {
		return w.tellGap(SeqRange{From: next, To: w.o.knownDurable}, before, nil)
	}
	return nil
}

// firstMissed is the seq from which records must be there: before it they may
// have been removed.
func (o *Offline) firstMissed() uint64 {
	wanted, ok := o.firstWanted()
	switch {
	case len(o.segments) > 0 && ok:
		return min(wanted, o.segments[0].firstSeq)
	case len(o.segments) > 0:
		return o.segments[0].firstSeq
	case ok:
		return wanted
	}
	return max(1, o.checkpoint.NextSeq)
}

// segment walks over one segment, and returns the seq after its last record and
// the offset after its last frame.
func (w *walk) segment(s *storedSegment) (next uint64, end int64, err error) {
	if s.openErr != nil {
		return s.until, 0, w.tellUnreadable(s, 0, s.openErr)
	}
	file, err := w.o.fsys.Open(w.o.path(s.String()))
	if err != nil {
		return s.until, 0, w.tellUnreadable(s, 0, err)
	}
	defer file.Close()
	proof, err := w.proofOf(s, file)
	if err != nil {
		return s.until, 0, w.tellUnreadable(s, segmentHeaderSize, err)
	}
	var reader frameReader
	reader.open(file, s.epoch)
	next = s.firstSeq
	for {
		if err := w.ctx.Err(); err != nil {
			return 0, 0, context.Cause(w.ctx)
		}
		at := reader.off
		f, err := reader.wholeFrame(next, s.end)
		if err == nil && !s.exact && f.firstSeq >= s.until {
			return next, at, nil // a failed commit left it, which went on in the next segment
		}
		if err == nil && f.firstSeq == next {
			payload := reader.bytes(f.size())[f.headerLen : f.headerLen+f.payloadLen]
			if w.frame != nil {
				if err := w.frame(s, &f, payload); err != nil {
					return 0, 0, err
				}
			}
			next = f.end()
			reader.skip(&f)
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) && !isDamage(err) {
			return s.until, at, w.tellUnreadable(s, at, err)
		}
		if errors.Is(err, errPayload) && proof.holds(reader.off, &f) {
			h := hole{from: reader.off, to: reader.off + int64(f.size()), lost: SeqRange{From: next, To: f.end()}, cause: err}
			if err := w.tellHole(s, h); err != nil {
				return 0, 0, err
			}
			next = f.end()
			reader.skip(&f)
			continue
		}
		found, h, err := w.passHole(s, &reader, next, proof, err)
		if err != nil {
			return s.until, at, w.tellUnreadable(s, at, err)
		}
		if !found {
			return w.endSegment(s, file, next, h)
		}
		if err := w.tellHole(s, h); err != nil {
			return 0, 0, err
		}
		next = h.lost.To
		if h.last {
			return w.endSegment(s, file, next, hole{from: reader.off, to: reader.off, torn: true})
		}
	}
}

// proofOf reads the headers of s as far as they follow each other, if s is the last
// segment.
func (w *walk) proofOf(s *storedSegment, file File) (proof, error) {
	p := newProof(w.o.knownDurable, segmentHeaderSize)
	if !s.isLast() {
		return p, nil
	}
	var reader frameReader
	reader.openHeaders(file, s.epoch, segmentHeaderSize, s.end)
	next := s.firstSeq
	for {
		f, err := reader.nextHeader(next, s.end)
		if errors.Is(err, io.EOF) || isDamage(err) {
			return p, nil
		}
		if err != nil {
			return p, err
		}
		p.note(&f)
		next = max(next, f.end())
		reader.skip(&f)
	}
}

// passHole moves the reader from damage to the next whole frame of s; found is
// false when the log goes on in the next segment, or nowhere.
func (w *walk) passHole(s *storedSegment, reader *frameReader, next uint64, p proof, cause error) (found bool, h hole, err error) {
	h = hole{from: reader.off, to: reader.off, cause: cause, torn: reader.claimedSize(s.end) > 0}
	if errors.Is(cause, io.EOF) {
		h.cause = nil
		return false, h, nil
	}
	if cause != nil {
		reader.step(s.end)
	}
	f, err := reader.resync(next, s.end)
	if errors.Is(err, io.EOF) {
		return false, h, nil
	}
	if err != nil || !s.exact && f.firstSeq >= s.until {
		return false, h, err
	}
	h.to, h.lost = reader.off, SeqRange{From: next, To: f.firstSeq}
	if h.cause == nil {
		h.cause = errSequence
	}
	if h.to > h.from && s.isLast() && !p.isOfHole(*reader, next, h.from, s.end) {
		return false, h, nil
	}
	h.last = s.isLast() && p.endsIn(h.from, *reader, &f, s.end)
	return true, h, nil
}

// endSegment tells what is at the offset behind the last frame of s.
func (w *walk) endSegment(s *storedSegment, file File, next uint64, h hole) (uint64, int64, error) {
	at := h.from
	switch {
	case s.exact && at < s.namedEnd:
		h.to, h.lost = s.end, SeqRange{From: next, To: s.until}
		if h.cause == nil {
			h.cause = errShort
		}
		return s.until, at, w.tellHole(s, h)
	case s.isLast() && w.tail != nil:
		leftOver := h.torn || h.to > h.from || next < w.o.knownDurable
		h.to, h.lost = at, SeqRange{From: next, To: next}
		if leftOver {
			var err error
			if h.to, err = olderContent(file, at, s); err != nil {
				return next, at, w.tellUnreadable(s, at, err)
			}
		}
		return next, at, w.tail(s, h)
	}
	return next, at, nil
}

func (w *walk) tellHole(s *storedSegment, h hole) error {
	if w.hole == nil {
		return nil
	}
	return w.hole(s, h)
}

func (w *walk) tellGap(r SeqRange, after, before *storedSegment) error {
	if w.gap == nil {
		return nil
	}
	return w.gap(r, after, before)
}

func (w *walk) tellUnreadable(s *storedSegment, off int64, err error) error {
	if w.unreadable == nil {
		return fmt.Errorf("segment %s: read at %d: %w", s, off, err)
	}
	return w.unreadable(s, off, err)
}

// olderContent returns the offset behind the last byte from off on that may be of
// the segment's present use: what follows begins a frame of an earlier one, or is
// zero.
func olderContent(file File, off int64, s *storedSegment) (end int64, err error) {
	var reader frameReader
	reader.open(file, s.epoch)
	reader.seek(off)
	_, err = reader.peek(s.size)
	for isDamage(err) && !errors.Is(err, errStale) || err == nil {
		reader.step(s.size)
		_, err = reader.peek(s.size)
	}
	if !errors.Is(err, errStale) && !errors.Is(err, io.EOF) {
		return 0, err
	}
	limit := min(reader.off, s.size)
	b := make([]byte, min(readSize, limit-off))
	for at := off; at < limit; at += int64(len(b)) {
		b = b[:min(int64(len(b)), limit-at)]
		if _, err := readFull(file, b, at); err != nil {
			return 0, err
		}
		if n := len(bytes.TrimRight(b, "\x00")); n > 0 {
			end = at + int64(n)
		}
	}
	return max(off, end), nil
}
