package filesink

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/docket-export/docket/sinks"
)

// openStore opens dir and mends what a crash or a failure has left there. What
// it finds, and does about it, is told in the package comment.
func openStore(dir string, log *slog.Logger, d disk) (*store, error) {
	s := &store{dir: dir, log: log, disk: d}
	err := s.recover()
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *store) recover() (err error) {
	if s.lock, err = lock(s.path(lockName)); err != nil {
		return err
	}
	found, err := readPosition(s.path(positionName))
	if err != nil {
		return err
	}
	if found.sound {
		s.position = found.position
		err = s.settle(found.doubtful)
	} else {
		err = s.setAside(found.exists)
	}
	if err != nil {
		return err
	}
	if err := s.replacePosition(); err != nil {
		return err
	}
	return s.openActive()
}

// settle brings a position that was read into agreement with the directory,
// without a change to the active file.
func (s *store) settle(doubtful bool) error {
	size, err := sizeOf(s.path(activeName))
	if err != nil {
		return err
	}
	if !s.position.finishing.IsZero() {
		finished, err := exists(s.path(s.position.finishedName()))
		if err != nil {
			return err
		}
		if finished || size < 0 { // or finished, and moved on by somebody since
			s.position = s.position.withoutFile()
		}
		s.position.finishing = time.Time{}
	}
	if s.position.size > 0 && size < s.position.size {
		return s.shrunk(size)
	}
	if doubtful {
		return s.keepTail(size)
	}
	return nil
}

// shrunk reports an active file that has lost accepted records.
func (s *store) shrunk(size int64) error {
	p := s.position
	return sinks.Failf(sinks.Misconfigured,
		"file sink: %s has %d bytes, but %d were accepted (seqs %d to %d): put the file back, "+
			"or, to go on without what is missing, move %s to another directory",
		s.path(activeName), max(size, 0), p.size, p.first, p.last, s.path(positionName))
}

// keepTail copies what is beyond the recorded size to an unnumbered file: a
// damaged slot may have said that it was accepted.
func (s *store) keepTail(size int64) error {
	if size <= s.position.size {
		s.log.Warn("a slot of the position file was damaged; nothing depends on it", "file", s.path(positionName))
		return nil
	}
	name, err := s.freeUnnumbered("ndjson")
	if err != nil {
		return err
	}
	if err := s.copyTail(s.path(name), size-s.position.size); err != nil {
		return err
	}
	s.log.Warn("a slot of the position file was damaged: records that it may have covered are set aside, and may stand in a later file too",
		"file", s.path(name), "bytes", size-s.position.size)
	return nil
}

func (s *store) copyTail(path string, n int64) error {
	from, err := os.Open(s.path(activeName))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := s.disk.create(path)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := s.copy(to, io.NewSectionReader(from, s.position.size, n)); err != nil {
		return err
	}
	if err := s.disk.sync(to); err != nil {
		return err
	}
	return s.disk.syncDirectory(s.dir)
}

func (s *store) copy(to *os.File, from io.Reader) error {
	buffer := make([]byte, bufferSize)
	for offset := int64(0); ; {
		n, err := io.ReadFull(from, buffer)
		if n == 0 && err == io.EOF {
			return nil
		}
		if err != nil && err != io.ErrUnexpectedEOF {
			return err
		}
		if _, err := s.disk.write(to, buffer[:n], offset); err != nil {
			return err
		}
		offset += int64(n)
	}
}

// setAside renames an active file without a position, and the damaged position
// file, so that both are kept and a new active file can be begun.
func (s *store) setAside(damaged bool) error {
	size, err := sizeOf(s.path(activeName))
	if err != nil {
		return err
	}
	if size > 0 {
		name, err := s.moveAside(activeName, "ndjson")
		if err != nil {
			return err
		}
		s.log.Warn("the position of the active file is lost: it is set aside, and its last records may stand in a later file too",
			"file", s.path(name), "bytes", size)
	}
	if damaged {
		name, err := s.moveAside(positionName, "position")
		if err != nil {
			return err
		}
		s.log.Warn("the position file is damaged: it is set aside", "file", s.path(name))
	}
	return s.disk.syncDirectory(s.dir)
}

func (s *store) moveAside(name, suffix string) (aside string, err error) {
	f, err := os.Open(s.path(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := s.disk.sync(f); err != nil {
		return "", err
	}
	aside, err = s.freeUnnumbered(suffix)
	if err != nil {
		return "", err
	}
	return aside, s.disk.rename(s.path(name), s.path(aside))
}

func (s *store) freeUnnumbered(suffix string) (string, error) {
	name := func(at time.Time) string { return unnumberedName(at, suffix) }
	at, err := freeTime(s.dir, name)
	return name(at), err
}

// replacePosition writes the position to a new file, which takes the place of
// the old. A position that was read is not known to be durable before that.
func (s *store) replacePosition() error {
	path := s.path(newPositionName)
	if err := s.disk.remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := s.disk.create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	file := make([]byte, positionFileSize)
	for range 2 {
		s.position.generation++
		s.position.encode(file[s.position.offset():s.position.offset()])
	}
	if _, err := s.disk.write(f, file, 0); err != nil {
		return err
	}
	if err := s.disk.sync(f); err != nil {
		return err
	}
	if err := s.disk.rename(path, s.path(positionName)); err != nil {
		return err
	}
	if err := s.disk.syncDirectory(s.dir); err != nil {
		return err
	}
	s.positions, err = os.OpenFile(s.path(positionName), os.O_RDWR, 0)
	return err
}

// openActive opens the active file at its accepted size. One without accepted
// records is made anew, whatever it holds.
func (s *store) openActive() (err error) {
	if s.position.size == 0 {
		if err := s.disk.remove(s.path(activeName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return s.begin()
	}
	if s.active, err = os.OpenFile(s.path(activeName), os.O_RDWR, 0); err != nil {
		return err
	}
	return s.cutBack()
}

// sizeOf is the size of the file at path, -1 when there is none.
func sizeOf(path string) (int64, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
