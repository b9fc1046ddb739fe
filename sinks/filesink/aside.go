package filesink

import (
	"io"
	"time"
)

// setAside renames active files without a position, and the damaged position
// file, so that all is kept and a new active file can be begun. The manifest says
// what was finished before.
func (s *store) setAside(damaged bool) error {
	for f := range forms {
		size, err := s.at(activeName(f)).Size()
		if err != nil {
			return err
		}
		if size <= 0 {
			continue
		}
		name, err := s.moveAside(activeName(f), "ndjson"+f.suffix())
		if err != nil {
			return err
		}
		s.position.lost = true
		s.log.Warn("the position of the active file is lost: the file is set aside, and a later file may repeat its last records",
			"file", s.path(name), "bytes", size)
	}
	if damaged {
		name, err := s.moveAside(positionName, "position")
		if err != nil {
			return err
		}
		s.position.lost = true
		s.log.Warn("the position file is damaged and was set aside", "file", s.path(name))
	}
	if s.position.lost {
		return s.place.SyncDir()
	}
	return nil
}

func (s *store) moveAside(name, suffix string) (aside string, err error) {
	f, err := s.at(name).OpenRead()
	if err != nil {
		return "", err
	}
	defer f.Close() // nothing was written by it
	if err := f.Sync(); err != nil {
		return "", err
	}
	aside, err = s.freeUnnumbered(suffix)
	if err != nil {
		return "", err
	}
	return aside, s.at(name).Rename(s.at(aside))
}

// keepActiveTail copies what is beyond the recorded size of the active file to an
// unnumbered file: a damaged slot may have said that it was accepted.
func (s *store) keepActiveTail(size int64) error {
	p := s.position
	if size <= p.size {
		s.log.Warn("a slot of the position file was damaged; the other slot is good", "file", s.path(positionName))
		return nil
	}
	return s.keepTail(activeName(p.form), p.size, size-p.size, "ndjson"+p.form.suffix())
}

// keepTail copies the last bytes of a file to an unnumbered one.
func (s *store) keepTail(name string, offset, bytes int64, suffix string) error {
	from, err := s.at(name).OpenRead()
	if err != nil {
		return err
	}
	defer from.Close() // read only: nothing can be lost
	aside, err := s.freeUnnumbered(suffix)
	if err != nil {
		return err
	}
	if err := s.at(aside).WriteNewBy(copyOf(io.NewSectionReader(from, offset, bytes))); err != nil {
		return err
	}
	s.log.Warn("a position is damaged or lost: the files that it may have covered are set aside, and later files may repeat their records",
		"file", s.path(aside), "from", name, "bytes", bytes)
	return nil
}

func (s *store) freeUnnumbered(suffix string) (string, error) {
	name := func(at time.Time) string { return unnumberedName(at, suffix) }
	at, err := freeTime(s.at("."), name)
	return name(at), err
}
