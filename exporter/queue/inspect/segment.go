package inspect

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// segmentWalk is the part of a walk that is in one segment.
type segmentWalk struct {
	*walk
	s      *storedSegment
	file   disk.File
	proof  segment.Proof
	reader segment.Reader
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
		return s.until, 0, w.tellUnreadable(s, segment.HeaderSize, err)
	}
	in := segmentWalk{walk: w, s: s, file: file, proof: proof, next: s.FirstSeq}
	in.reader.Open(file, s.Epoch)
	for !in.ended && err == nil {
		if w.ctx.Err() != nil {
			return in.next, in.end, context.Cause(w.ctx)
		}
		in.end = in.reader.Off
		err = in.step()
	}
	return in.next, in.end, err
}

// proofOf reads the headers of s as far as they follow each other, if s is the last
// segment.
func (w *walk) proofOf(s *storedSegment, file disk.File) (segment.Proof, error) {
	p := segment.NewProof(w.o.knownDurable, segment.HeaderSize)
	if !s.isLast() {
		return p, nil
	}
	var reader segment.Reader
	reader.OpenHeaders(file, s.Epoch, segment.HeaderSize, s.end)
	next := s.FirstSeq
	for {
		f, err := reader.NextHeader(next, s.end)
		if errors.Is(err, io.EOF) || segment.IsDamage(err) {
			return p, nil
		}
		if err != nil {
			return p, err
		}
		p.Note(&f)
		next = max(next, f.End())
		reader.Skip(&f)
	}
}

// step passes a frame, a hole, or what is behind the last frame.
func (w *segmentWalk) step() error {
	f, err := w.reader.WholeFrame(w.next, w.s.end)
	switch {
	case err == nil && w.isOfNext(&f):
		w.ended = true
		return nil
	case err == nil && f.FirstSeq == w.next:
		return w.passFrame(&f)
	case err != nil && !errors.Is(err, io.EOF) && !segment.IsDamage(err):
		return w.giveUp(err)
	case errors.Is(err, segment.ErrPayload) && w.proof.Holds(w.end, &f):
		return w.passPayload(&f, err)
	}
	return w.passHole(err)
}

// isOfNext says whether f has records of the next segment: a failed commit has left
// it, which went on there.
func (w *segmentWalk) isOfNext(f *segment.Frame) bool { return !w.s.exact && f.FirstSeq >= w.s.until }

func (w *segmentWalk) passFrame(f *segment.Frame) error {
	if w.frame != nil {
		payload := w.reader.Bytes(f.Size())[f.HeaderLen : f.HeaderLen+f.PayloadLen]
		if err := w.frame(w.s, f, payload); err != nil {
			return err
		}
	}
	w.skip(f)
	return nil
}

// passPayload passes a frame that is whole but for its records.
func (w *segmentWalk) passPayload(f *segment.Frame, cause error) error {
	h := hole{from: w.end, to: w.end + int64(f.Size()), lost: segment.SeqRange{From: w.next, To: f.End()}, cause: cause}
	w.skip(f)
	return w.tellHole(w.s, h)
}

func (w *segmentWalk) skip(f *segment.Frame) {
	w.next = f.End()
	w.reader.Skip(f)
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
		w.end = w.reader.Off
		return w.endAt(hole{from: w.end, to: w.end, torn: true})
	}
	return nil
}

// findBehind moves the reader from damage to the next whole frame; found is false
// when the log goes on in the next segment, or nowhere.
func (w *segmentWalk) findBehind(cause error) (found bool, h hole, err error) {
	s, reader := w.s, &w.reader
	h = hole{from: w.end, to: w.end, cause: cause, torn: reader.ClaimedSize(s.end) > 0}
	if errors.Is(cause, io.EOF) {
		h.cause = nil
		return false, h, nil
	}
	if cause != nil {
		reader.Step(s.end)
	}
	f, err := reader.Resync(w.next, s.end)
	if errors.Is(err, io.EOF) {
		return false, h, nil
	}
	if err != nil || w.isOfNext(&f) {
		return false, h, err
	}
	h.to, h.lost = reader.Off, segment.SeqRange{From: w.next, To: f.FirstSeq}
	if h.cause == nil {
		h.cause = segment.ErrSequence
	}
	if h.to > h.from && s.isLast() && !w.proof.IsOfHole(*reader, w.next, h.from, s.end) {
		return false, h, nil
	}
	h.last = s.isLast() && w.proof.EndsIn(h.from, *reader, &f, s.end)
	return true, h, nil
}

// endAt tells what is behind the last frame, at h.from.
func (w *segmentWalk) endAt(h hole) error {
	s, at := w.s, h.from
	w.ended = true
	switch {
	case s.exact && at < s.namedEnd:
		h.to, h.lost = s.end, segment.SeqRange{From: w.next, To: s.until}
		if h.cause == nil {
			h.cause = segment.ErrShort
		}
		w.next = s.until
		return w.tellHole(s, h)
	case s.isLast() && w.tail != nil:
		var err error
		switch {
		case h.torn || h.to > h.from: // as recovery cuts it
			h.to, err = segment.TailEnd(w.file, s.Epoch, at, s.end)
		case w.next < w.o.knownDurable:
			h.to, err = olderContent(w.file, at, s)
		}
		if err != nil {
			return w.tellUnreadable(s, at, err)
		}
		h.lost = segment.SeqRange{From: w.next, To: w.next}
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
	var reader segment.Reader
	reader.Open(file, s.Epoch)
	reader.MoveTo(off)
	_, err = reader.Peek(s.size)
	for segment.IsDamage(err) && !errors.Is(err, segment.ErrStale) || err == nil {
		reader.Step(s.size)
		_, err = reader.Peek(s.size)
	}
	if !errors.Is(err, segment.ErrStale) && !errors.Is(err, io.EOF) {
		return 0, err
	}
	limit := min(reader.Off, s.size)
	b := make([]byte, min(segment.ReadSize, limit-off))
	for at := off; at < limit; at += int64(len(b)) {
		b = b[:min(int64(len(b)), limit-at)]
		if _, err := state.ReadFull(file, b, at); err != nil {
			return 0, err
		}
		if n := len(bytes.TrimRight(b, "\x00")); n > 0 {
			end = at + int64(n)
		}
	}
	return max(off, end), nil
}
