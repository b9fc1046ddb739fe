package delta

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/docket-export/docket/internal/disk"
)

// spill holds the entries of a run that is under way: in memory, and the earlier ones
// in a file where they are many. The zero value is empty.
type spill struct {
	buffer []byte
	length int64 // of what is good in the file
	err    error // the file takes no more
}

// add adds the entry of a violation.
func (s *spill) add(path disk.Path, v *violation, opened string) error {
	if s.err == nil && len(s.buffer) >= spillBytes {
		s.err = s.flush(path)
	}
	if s.err != nil {
		return s.err
	}
	s.buffer = v.appendEntry(s.buffer, opened)
	return nil
}

// flush moves what is in memory to the file. The file of an earlier run is overwritten.
func (s *spill) flush(path disk.Path) error {
	if err := s.write(path); err != nil {
		return fmt.Errorf("delta: cannot track new violations, docket sends them in every run: %w", err)
	}
	s.length += int64(len(s.buffer))
	s.buffer = s.buffer[:0]
	return nil
}

// write leaves nothing open between two calls, as a run that is given up needs no end.
func (s *spill) write(path disk.Path) error {
	f, err := path.OpenWrite()
	if errors.Is(err, fs.ErrNotExist) {
		if err := path.Dir().MakeDir(); err != nil {
			return err
		}
		f, err = path.Create()
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(s.buffer, s.length)
	return err
}

// writeTo writes all entries to w.
func (s *spill) writeTo(w io.Writer, path disk.Path) error {
	if s.length > 0 {
		f, err := path.OpenRead()
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.CopyN(w, disk.Reader(f), s.length); err != nil {
			return err
		}
	}
	_, err := w.Write(s.buffer)
	return err
}
