package segment

import (
	"errors"
	"io"

	"github.com/docket-export/docket/internal/disk"
)

// Scan decides what the bytes of one segment are. It is the only reader that does: Open
// folds its items into the state of the queue, the tools for a queue at rest report them.
//
// A hole is bytes that are no frame with a frame behind them. In a segment that has a
// successor a hole is damage. At the end of the log it is a torn tail unless a later frame
// was written after the hole had been synced, or a record that stood there is known to
// have been durable: a power cut keeps any blocks of the commit that was under way, in any
// order, and nothing of that commit was acknowledged. The rules are in proof.go.
type Scan struct {
	*Stored
	File disk.File
	// Records makes Scan check the checksum of every record. Without it, Scan reads only
	// the headers of frames that were synced for certain.
	Records bool
	// KnownDurable is a seq: every record below it was durable once.
	KnownDurable uint64
	// From is the offset of the first frame, at least HeaderSize. A checkpoint covers what
	// is before it, and the frames up to Counted.
	From, Counted int64
	// Next is the seq of the record that comes next. No record below Passed is missed.
	// When Run returns, Next is the seq after the last record.
	Next, Passed uint64
	// Off is the offset behind what was passed.
	Off int64
	// Received is when the newest frame was received whose header was read, Unix
	// nanoseconds.
	Received int64

	visit  func(*Item) error
	reader Reader
	proof  proof
	// byHeaders is the proof of the headers that follow each other from the first on: a
	// frame that it holds is not given up for damaged records.
	byHeaders proof
	waiting   []heldFrame // not proven to be synced yet, in order
	held      []byte      // what is kept of them, which their names alias
	ahead     uint64      // the seq behind what was read
}

// kind is what an Item is.
type kind uint8

// The kinds of items.
const (
	// IsFrame is a frame that belongs to the log.
	IsFrame kind = iota
	// IsHole is damage: bytes that were frames, or the place of records that are missing.
	IsHole
	// IsGap is records that are missing in front of the segment or behind the log.
	IsGap
	// IsTail is the end of the log: up to To stands what a crash has left of a commit.
	IsTail
)

// Item is a part of a segment.
type Item struct {
	Kind     kind
	From, To int64 // its bytes
	Frame    Frame // of a frame
	// Bytes are the header of a frame, or the whole frame when it was read. They are valid
	// until the next item. For the tail they are all frames that were not synced, one after
	// the other, and stay valid.
	Bytes []byte
	// Synced says that a frame was synced for certain. Frames at the end of the log
	// without such proof are whole.
	Synced bool
	Lost   SeqRange // the records that are missing
	Cause  error    // of a hole
	// AtEnd says that a hole is at the end of a segment that has a successor, or that a gap
	// is behind the log.
	AtEnd bool
	// HasProof says that a header in the tail proves the frames before it.
	HasProof bool
}

// Payload returns the records of a frame that was read in full.
func (it *Item) Payload() []byte {
	return it.Bytes[it.Frame.HeaderLen : it.Frame.HeaderLen+it.Frame.PayloadLen]
}

type heldFrame struct {
	Frame
	off   int64
	at, n int // in held
}

// Run calls visit with all items in order. Frames at the end of the log wait until a later
// frame proves that they were synced, or the log ends. An error of visit or of the file
// ends the scan.
func (s *Scan) Run(visit func(*Item) error) error {
	s.visit, s.proof = visit, newProof(s.KnownDurable, s.From)
	s.Off, s.ahead = s.From, s.Next
	s.reader.Open(s.File, s.Epoch)
	if s.IsLast() {
		if err := s.headers(); err != nil {
			return err
		}
	} else if !s.Records {
		s.reader.openHeaders(s.File, s.Epoch, s.From, s.End)
	}
	s.reader.MoveTo(s.Off)
	for {
		more, err := s.step()
		if err != nil || !more {
			return err
		}
	}
}

// headers reads the headers from the first on, as far as they follow each other, for what
// they prove. Without Records that is all that is read of the frames they prove.
func (s *Scan) headers() error {
	var reader Reader
	reader.openHeaders(s.File, s.Epoch, s.From, s.End)
	next := s.Next
	for {
		f, err := reader.nextHeader(next, s.End)
		if errors.Is(err, io.EOF) || IsDamage(err) {
			break
		}
		if err != nil {
			return err
		}
		s.note(&f)
		if !s.Records {
			if err := s.take(&f, reader.Off, reader.bytes(f.HeaderLen)); err != nil {
				return err
			}
		}
		next = max(next, f.End())
		reader.Skip(&f)
	}
	s.byHeaders = s.proof
	if n := len(s.waiting); n > 0 { // by their headers: they are read again, in full
		last := &s.waiting[n-1]
		s.held = make([]byte, 0, last.off+int64(last.Size())-s.waiting[0].off)
		s.waiting, s.ahead = s.waiting[:0], s.Next
	}
	return nil
}

// step passes a frame with the hole in front of it, or the end; more is false then.
func (s *Scan) step() (more bool, err error) {
	r, hole, next := &s.reader, s.reader.Off, s.ahead
	f, cause := s.frame(next)
	if cause != nil && !errors.Is(cause, io.EOF) && !IsDamage(cause) {
		return false, cause
	}
	if errors.Is(cause, errPayload) && s.Records && s.IsLast() && s.byHeaders.holds(hole, &f) {
		// Its header says exactly what is lost.
		lost := SeqRange{From: next, To: f.End()}
		r.Skip(&f)
		return true, s.hole(hole, r.Off, lost, cause)
	}
	torn := cause != nil && r.claimedSize(s.End) > 0
	if cause != nil && !errors.Is(cause, io.EOF) {
		r.Step(s.End)
		if f, err = r.Resync(next, s.End); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
	}
	switch {
	case errors.Is(cause, io.EOF) || errors.Is(err, io.EOF) || s.isOfNext(&f):
		return false, s.end(hole, hole, torn, cause)
	case r.Off > hole && s.IsLast() && !s.proof.isOfHole(*r, next, hole, s.End):
		return false, s.end(hole, hole, true, cause)
	case r.Off > hole:
		endsIn := s.IsLast() && s.proof.endsIn(hole, *r, &f, s.End)
		s.proof.proven = max(s.proof.proven, hole)
		if endsIn {
			s.proof.proven = f.Durable
		}
		if err := s.release(); err != nil {
			return false, err
		}
		if err := s.hole(hole, r.Off, SeqRange{From: next, To: max(next, f.FirstSeq)}, cause); err != nil {
			return false, err
		}
		if endsIn {
			return false, s.end(hole, r.Off, true, nil)
		}
	}
	s.note(&f)
	b := r.bytes(f.HeaderLen)
	if s.readsWhole() {
		b = r.bytes(f.Size())
	}
	err = s.take(&f, r.Off, b)
	r.Skip(&f)
	return true, err
}

// frame returns the frame at the reader's offset, if it can be the next one.
func (s *Scan) frame(next uint64) (Frame, error) {
	if s.readsWhole() {
		return s.reader.wholeFrame(next, s.End)
	}
	return s.reader.nextHeader(next, s.End)
}

// readsWhole reports whether frames are read with their records.
func (s *Scan) readsWhole() bool { return s.Records || s.IsLast() }

// isOfNext reports whether f has records of the next segment: a failed commit has left
// it, which went on there.
func (s *Scan) isOfNext(f *Frame) bool { return !s.Exact && f.FirstSeq >= s.Until }

func (s *Scan) note(f *Frame) {
	s.proof.note(f)
	s.Received = max(s.Received, f.Received)
}

// take visits f, at off, if it was synced, or lets it wait with a copy of b.
func (s *Scan) take(f *Frame, off int64, b []byte) error {
	s.ahead = max(s.ahead, f.End())
	if err := s.release(); err != nil {
		return err
	}
	if len(s.waiting) == 0 {
		if s.wasSynced(f, off) {
			return s.emit(f, off, b, true)
		}
		s.held = s.held[:0]
	}
	at := len(s.held)
	s.held = append(s.held, b...)
	h := heldFrame{Frame: *f, off: off, at: at, n: len(b)}
	h.alias(s.held[at:])
	s.waiting = append(s.waiting, h)
	return nil
}

func (s *Scan) wasSynced(f *Frame, off int64) bool {
	return !s.IsLast() || off+int64(f.Size()) <= s.Counted || s.proof.holds(off, f)
}

// release visits the frames that wait, as far as they were synced.
func (s *Scan) release() error {
	n := 0
	for n < len(s.waiting) && s.wasSynced(&s.waiting[n].Frame, s.waiting[n].off) {
		n++
	}
	return s.flush(n, true)
}

// flush visits the first n frames that wait.
func (s *Scan) flush(n int, synced bool) error {
	for i := range n {
		h := &s.waiting[i]
		if err := s.emit(&h.Frame, h.off, s.held[h.at:h.at+h.n], synced); err != nil {
			return err
		}
	}
	s.waiting = append(s.waiting[:0], s.waiting[n:]...)
	return nil
}

// emit visits the frame f, with the records that are missing before it.
func (s *Scan) emit(f *Frame, off int64, b []byte, synced bool) error {
	if err := s.before(); err != nil {
		return err
	}
	if f.FirstSeq > s.Next {
		if err := s.hole(off, off, SeqRange{From: s.Next, To: f.FirstSeq}, errSequence); err != nil {
			return err
		}
	}
	s.Next, s.Off = max(s.Next, f.End()), off+int64(f.Size())
	return s.visit(&Item{Kind: IsFrame, From: off, To: s.Off, Frame: *f, Bytes: b, Synced: synced})
}

// hole visits damage.
func (s *Scan) hole(from, to int64, lost SeqRange, cause error) error {
	if err := s.before(); err != nil {
		return err
	}
	s.Next, s.ahead, s.Off = max(s.Next, lost.To), max(s.ahead, lost.To), to
	return s.visit(&Item{Kind: IsHole, From: from, To: to, Lost: lost, Cause: cause})
}

// before visits what is missing in front of the segment.
func (s *Scan) before() error {
	from := s.Passed
	s.Passed = max(s.Passed, s.FirstSeq)
	if from == 0 || from >= s.FirstSeq {
		return nil
	}
	return s.visit(&Item{Kind: IsGap, Lost: SeqRange{From: from, To: s.FirstSeq}})
}

// end visits what is behind the last frame, which ends at hole; the rest stands at from.
func (s *Scan) end(hole, from int64, torn bool, cause error) error {
	if err := s.before(); err != nil {
		return err
	}
	if !s.IsLast() {
		if !s.Exact || from >= s.NamedEnd {
			return nil
		}
		if cause == nil || errors.Is(cause, io.EOF) {
			cause = errShort
		}
		lost := SeqRange{From: s.Next, To: s.Until}
		s.Next = s.Until
		return s.visit(&Item{Kind: IsHole, From: from, To: s.End, Lost: lost, Cause: cause, AtEnd: true})
	}
	var unsynced []byte
	if len(s.waiting) > 0 {
		unsynced = s.held[s.waiting[0].at:]
	}
	if err := s.flush(len(s.waiting), false); err != nil {
		return err
	}
	tail := &Item{Kind: IsTail, From: from, To: from, Bytes: unsynced, Lost: SeqRange{From: s.Next, To: s.Next}, HasProof: s.proof.proven >= hole && s.proof.proven > s.From}
	if torn {
		to, err := tailEnd(s.File, s.Epoch, from, s.End)
		if err != nil {
			return err
		}
		tail.To = to
	}
	if err := s.visit(tail); err != nil {
		return err
	}
	if s.Next = max(s.Next, s.Passed); s.Next >= s.KnownDurable {
		return nil
	}
	return s.visit(&Item{Kind: IsGap, Lost: SeqRange{From: s.Next, To: s.KnownDurable}, AtEnd: true})
}

// tailEnd returns where the last frame of this epoch ends that begins at from or
// later, whole or, at from, by what its header says.
func tailEnd(file disk.File, epoch uint64, from, size int64) (int64, error) {
	var reader Reader
	reader.Open(file, epoch)
	reader.MoveTo(from)
	end := min(size, from+reader.claimedSize(size))
	for {
		f, err := reader.Resync(0, size)
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return 0, err
		}
		reader.Skip(&f)
		end = max(end, reader.Off)
	}
}
