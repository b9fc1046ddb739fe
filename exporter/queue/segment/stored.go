package segment

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
)

// Stored is a segment's file with what its name, its header and those of its neighbours
// say.
type Stored struct {
	Name
	Size      int64
	Header    Header // zero when HeaderErr is set
	HeaderErr error  // ErrHeader: its frames can be read all the same
	OpenErr   error  // nothing of it can be read, or its version is not known
	// End is the offset up to which frames may stand. Exact is set when a later segment
	// says so; then all of it is frames, up to NamedEnd, which lies beyond End when the
	// file was cut. Otherwise the frames of this epoch stop somewhere, and what the file
	// held before follows.
	End, NamedEnd int64
	Exact         bool
	// Until is the seq at which the next segment takes over, MaxUint64 for the last one.
	Until uint64
	// Newest is when the last record was received, or a little later, by what a later
	// segment says; Unix nanoseconds, 0: unknown.
	Newest int64
}

// NewStored returns a segment of which the name alone is known.
func NewStored(name Name) *Stored { return &Stored{Name: name, Until: math.MaxUint64} }

// IsLast reports whether the log ends in s.
func (s *Stored) IsLast() bool { return s.Until == math.MaxUint64 }

// IsNamed reports whether the header says whose the segment is.
func (s *Stored) IsNamed() bool { return s.HeaderErr == nil && s.OpenErr == nil }

// ReadHeader takes in the header of s from file, which is size bytes long, in dir.
func (s *Stored) ReadHeader(file io.ReaderAt, dir string, size int64) {
	s.Size, s.End = size, size
	var err error
	s.Header, err = readHeader(file, dir, s.Name)
	if errors.Is(err, ErrHeader) {
		s.HeaderErr = err
	} else {
		s.OpenErr = err
	}
}

// Link finds out where each segment ends. One that is found under its own name has taken
// over from the one before it.
func Link(segments []*Stored) {
	slices.SortFunc(segments, func(a, b *Stored) int { return a.Compare(b.Name) })
	for i, s := range segments {
		for _, before := range segments[:i] {
			if before.Epoch != s.Header.PrevEpoch {
				continue
			}
			before.End, before.Exact, before.NamedEnd = min(before.Size, s.Header.PrevEnd), true, s.Header.PrevEnd
			if s.Header.PrevEnd <= before.Size {
				before.Newest = cmp.Or(s.Header.PrevNewest, s.Header.Created)
			}
		}
		if i > 0 {
			segments[i-1].Until = s.FirstSeq
		}
	}
}

// FindEnd finds the end of a segment whose successor is missing or does not name it, or
// which was cut: behind the last frame there may be old content of the file. Where records
// are missing the end is beyond it, so that a reader that gets there keeps a copy. A docket
// that is killed again and again leaves many of those: a successor that had nothing but an
// end that was written again is gone.
func (s *Stored) FindEnd(file File) error {
	end, next := int64(HeaderSize), s.FirstSeq
	var reader Reader
	reader.OpenHeaders(file, s.Epoch, HeaderSize, s.Size)
	for {
		f, err := reader.ResyncHeader(s.FirstSeq, s.Size)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		reader.Skip(&f)
		end, next = reader.Off, f.End()
	}
	s.End, s.Exact = end, false
	if next < s.Until {
		reader.MoveTo(end)
		s.End = s.Size
		if claimed := reader.ClaimedSize(s.Size); claimed > 0 {
			s.End = min(s.Size, end+claimed)
		}
	}
	return nil
}
