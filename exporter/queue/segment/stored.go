package segment

import (
	"cmp"
	"errors"
	"io"
	"math"

	"github.com/docket-export/docket/internal/disk"
)

// Stored is a segment's file, as described by its name and header, and by those of its
// neighbours.
type Stored struct {
	Name
	Size      int64
	Header    Header // zero when HeaderErr is set
	HeaderErr error  // its header is damaged: its frames can be read all the same
	OpenErr   error  // nothing of it can be read, or its version is not known
	// End is the offset up to which frames may stand. Exact is set when a later segment
	// names the end. Then everything is frames up to NamedEnd, which lies beyond End
	// when the file was cut. Otherwise the frames of this epoch stop somewhere, and
	// older content of the file follows.
	End, NamedEnd int64
	Exact         bool
	// Until is the seq at which the next segment takes over, MaxUint64 for the last one.
	Until uint64
	// Newest is when the last record was received, or a little later, according to a
	// later segment; Unix nanoseconds, 0: unknown.
	Newest int64
}

// IsLast reports whether the log ends in s.
func (s *Stored) IsLast() bool { return s.Until == math.MaxUint64 }

// ReadHeader takes in the header of s from file, which is size bytes long, in dir.
func (s *Stored) ReadHeader(file io.ReaderAt, dir string, size int64) {
	s.Size, s.End = size, size
	var err error
	s.Header, err = readHeader(file, dir, s.Name)
	if errors.Is(err, errHeader) {
		s.HeaderErr = err
	} else {
		s.OpenErr = err
	}
}

// Link finds out where each segment ends. They are in order: one that is found under its
// own name has taken over from the one before it.
func Link(segments []*Stored) {
	for i, s := range segments {
		s.Until = math.MaxUint64
		for _, before := range segments[:i] {
			if before.Epoch != s.Header.PrevEpoch {
				continue
			}
			before.End, before.Exact, before.NamedEnd = min(before.Size, s.Header.PrevEnd), true, s.Header.PrevEnd
			if s.Header.PrevEnd <= before.Size {
				before.Newest = cmp.Or(s.Header.PrevNewest, s.Header.created)
			}
		}
		if i > 0 {
			segments[i-1].Until = s.FirstSeq
		}
	}
}

// FindEnd finds the end of a segment that was cut, or whose successor is missing or does
// not name the end. Old content of the file may follow the last frame. If records are
// missing, the end is set beyond the last frame, so that a reader that gets there keeps a
// copy. A docket that is killed again and again leaves many such segments: a successor that
// held only a rewritten end is gone.
func (s *Stored) FindEnd(file disk.File) error {
	end, next := int64(HeaderSize), s.FirstSeq
	var reader Reader
	reader.openHeaders(file, s.Epoch, HeaderSize, s.Size)
	for {
		f, err := reader.resyncHeader(s.FirstSeq, s.Size)
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
		if claimed := reader.claimedSize(s.Size); claimed > 0 {
			s.End = min(s.Size, end+claimed)
		}
	}
	return nil
}

// probeSize is how much of a segment's end is read first in search of its last
// frame: several commits of a quiet queue.
const probeSize = 256 << 10

// Ends calls note with the first frame of s and with its last ones, as far as
// they are whole. s must be exact.
func (s *Stored) Ends(file disk.File, note func(*Frame)) error {
	var reader Reader
	reader.Open(file, s.Epoch)
	first, err := reader.Resync(s.FirstSeq, s.End)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	note(&first)
	for size := int64(probeSize); ; size *= 8 {
		reader.MoveTo(max(HeaderSize, (s.End-size)&^(align-1)))
		isWhole := reader.Off == HeaderSize
		found, err := s.framesFrom(&reader, note)
		if err != nil || found || isWhole {
			return err
		}
	}
}

// framesFrom calls note with the whole frames of s from reader on.
func (s *Stored) framesFrom(reader *Reader, note func(*Frame)) (found bool, err error) {
	for {
		f, err := reader.Resync(s.FirstSeq, s.End)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		note(&f)
		found = true
		reader.Skip(&f)
	}
}
