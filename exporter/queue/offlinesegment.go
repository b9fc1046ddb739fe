package queue

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/docket-export/docket/internal/disk"
)

// segmentWalk is the part of a walk that is in one segment.
type segmentWalk struct {
	*walk
	s      *storedSegment
	file   disk.File
	proof  proof
	reader frameReader
	next   uint64 // seq of the record that comes next
	end    int64  // the offset behind what was passed
	ended  bool   // nothing of s follows
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
	in := segmentWalk{walk: w, s: s, file: file, proof: proof, next: s.firstSeq}
	in.reader.open(file, s.epoch)
	for !in.ended && err == nil {
		if w.ctx.Err() != nil {
			return in.next, in.end, context.Cause(w.ctx)
		}
		in.end = in.reader.off
		err = in.step()
	}
	return in.next, in.end, err
}

// proofOf reads the headers of s as far as they follow each other, if s is the last
// segment.
func (w *walk) proofOf(s *storedSegment, file disk.File) (proof, error) {
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

// step passes a frame, a hole, or what is behind the last frame.
func (w *segmentWalk) step() error {
	f, err := w.reader.wholeFrame(w.next, w.s.end)
	switch {
	case err == nil && w.isOfNext(&f):
		w.ended = true
		return nil
	case err == nil && f.firstSeq == w.next:
		return w.passFrame(&f)
	case err != nil && !errors.Is(err, io.EOF) && !isDamage(err):
		return w.giveUp(err)
	case errors.Is(err, errPayload) && w.proof.holds(w.end, &f):
		return w.passPayload(&f, err)
	}
	return w.passHole(err)
}

// isOfNext says whether f has records of the next segment: a failed commit has left
// it, which went on there.
func (w *segmentWalk) isOfNext(f *frame) bool { return !w.s.exact && f.firstSeq >= w.s.until }

func (w *segmentWalk) passFrame(f *frame) error {
	if w.frame != nil {
		payload := w.reader.bytes(f.size())[f.headerLen : f.headerLen+f.payloadLen]
		if err := w.frame(w.s, f, payload); err != nil {
			return err
		}
	}
	w.skip(f)
	return nil
}

// passPayload passes a frame that is whole but for its records.
func (w *segmentWalk) passPayload(f *frame, cause error) error {
	h := hole{from: w.end, to: w.end + int64(f.size()), lost: SeqRange{From: w.next, To: f.end()}, cause: cause}
	w.skip(f)
	return w.tellHole(w.s, h)
}

func (w *segmentWalk) skip(f *frame) {
	w.next = f.end()
	w.reader.skip(f)
}

// passHole passes what is no frame, or not the next one, with the whole frame behind it
// yet to pass. Without one, the segment ends.
func (w *segmentWalk) passHole(cause error) error {
	found, h, err := w.findBehind(cause)
	switch {
	case err != nil:
		return w.giveUp(err)
	case !found:
		return w.endAt(h)
	}
	if err := w.tellHole(w.s, h); err != nil {
		return err
	}
	w.next = h.lost.To
	if h.last {
		w.end = w.reader.off
		return w.endAt(hole{from: w.end, to: w.end, torn: true})
	}
	return nil
}

// findBehind moves the reader from damage to the next whole frame; found is false
// when the log goes on in the next segment, or nowhere.
func (w *segmentWalk) findBehind(cause error) (found bool, h hole, err error) {
	s, reader := w.s, &w.reader
	h = hole{from: w.end, to: w.end, cause: cause, torn: reader.claimedSize(s.end) > 0}
	if errors.Is(cause, io.EOF) {
		h.cause = nil
		return false, h, nil
	}
	if cause != nil {
		reader.step(s.end)
	}
	f, err := reader.resync(w.next, s.end)
	if errors.Is(err, io.EOF) {
		return false, h, nil
	}
	if err != nil || w.isOfNext(&f) {
		return false, h, err
	}
	h.to, h.lost = reader.off, SeqRange{From: w.next, To: f.firstSeq}
	if h.cause == nil {
		h.cause = errSequence
	}
	if h.to > h.from && s.isLast() && !w.proof.isOfHole(*reader, w.next, h.from, s.end) {
		return false, h, nil
	}
	h.last = s.isLast() && w.proof.endsIn(h.from, *reader, &f, s.end)
	return true, h, nil
}

// endAt tells what is behind the last frame, at h.from.
func (w *segmentWalk) endAt(h hole) error {
	s, at := w.s, h.from
	w.ended = true
	switch {
	case s.exact && at < s.namedEnd:
		h.to, h.lost = s.end, SeqRange{From: w.next, To: s.until}
		if h.cause == nil {
			h.cause = errShort
		}
		w.next = s.until
		return w.tellHole(s, h)
	case s.isLast() && w.tail != nil:
		var err error
		switch {
		case h.torn || h.to > h.from: // as recovery cuts it
			h.to, err = tailEnd(w.file, s.epoch, at, s.end)
		case w.next < w.o.knownDurable:
			h.to, err = olderContent(w.file, at, s)
		}
		if err != nil {
			return w.tellUnreadable(s, at, err)
		}
		h.lost = SeqRange{From: w.next, To: w.next}
		return w.tail(s, h)
	}
	return nil
}

// giveUp ends the segment at what cannot be read.
func (w *segmentWalk) giveUp(err error) error {
	w.next, w.ended = w.s.until, true
	return w.tellUnreadable(w.s, w.end, err)
}

// olderContent returns the offset behind the last byte from off on that may be of
// the segment's present use: what follows begins a frame of an earlier one, or is
// zero.
func olderContent(file disk.File, off int64, s *storedSegment) (end int64, err error) {
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
