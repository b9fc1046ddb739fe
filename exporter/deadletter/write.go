package deadletter

import (
	"bufio"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/docket-export/docket/internal/disk"
)

// defaultSlack is small on any disk, and large enough that a log of few letters is
// not written anew each time one of them goes.
const defaultSlack = 1 << 20

// prepare makes sure that the log can take a line: it writes a new one when there
// is none, or none that may be written.
func (s *Store) prepare() error {
	if err := s.changeable(); err != nil {
		return err
	}
	if s.log == nil || s.broken || len(s.holes) > 0 {
		return s.rewrite()
	}
	return nil
}

// prepareToUnlink makes sure that nothing unreadable goes with the log.
func (s *Store) prepareToUnlink() error {
	if err := s.changeable(); err != nil {
		return err
	}
	return s.setAsideHoles()
}

func (s *Store) changeable() error {
	if s.opts.ReadOnly {
		return errReadOnly
	}
	if s.closed {
		return os.ErrClosed
	}
	return nil
}

// write appends lines and makes them durable. What a failure leaves of them is taken
// back, so that no later start finds it.
func (s *Store) write(lines []byte) error {
	l := disk.Log{File: s.log, End: s.size}
	err := l.Append(lines)
	s.size, s.broken = l.End, s.broken || l.IsBroken()
	return err
}

// unlink removes the log. Until the removal is durable the letters stay readable, as
// the file is open.
func (s *Store) unlink() error {
	if err := s.place.Join(logFile).RemoveAny(); err != nil {
		return err
	}
	s.broken = true // without a name: what is written to it is lost
	if err := s.place.SyncDir(); err != nil {
		return err
	}
	s.replace(nil, 0, nil)
	return nil
}

// compact writes the log anew when more of it is garbage than letters. That it
// cannot be is no failure of what was done before: it is tried again later.
func (s *Store) compact() {
	garbage := s.size - s.index.bytes
	if s.log == nil || garbage <= max(s.slack, s.index.bytes, s.compactAt) {
		return
	}
	began := time.Now()
	if err := s.rewrite(); err != nil {
		s.compactAt = 2 * garbage
		s.opts.Log.Warn("dead letters: the log cannot be rewritten, so removed letters still take space", "directory", s.dir, "bytes", garbage, "error", err)
		return
	}
	s.opts.Log.Debug("dead letters: log rewritten", "directory", s.dir, "freed", garbage, "took", time.Since(began))
}

// rewrite puts a new log with the letters in the place of the one there is, or begins
// the first. After an error the old one is as it was, save that it may have lost
// its name.
func (s *Store) rewrite() error {
	if err := s.place.MakeDir(); err != nil {
		return err
	}
	if err := s.setAsideHoles(); err != nil {
		return err
	}
	var size int64
	var moved []entry
	var f disk.File
	err := s.place.Join(logFile).ReplaceBy(func(f disk.File) (err error) {
		size, moved, err = s.copyTo(f)
		return err
	})
	if err == nil {
		f, err = s.place.Join(logFile).OpenWrite()
	}
	if err != nil {
		// Until the name is durable both are the log.
		s.broken = s.broken || s.log != nil && s.log.Check() != nil
		return err
	}
	s.replace(f, size, moved)
	return nil
}

// replace makes f the log, in which the letters stand as entries say. Without a file
// there are none.
func (s *Store) replace(f disk.File, size int64, entries []entry) {
	old := s.log
	s.apply(func(x *index) {
		s.log, *x = f, index{}
		for _, e := range entries {
			x.put(e)
		}
	})
	s.size, s.holes, s.broken, s.compactAt = size, nil, false, 0
	if old != nil {
		_ = old.Close() // nothing of it is needed any more
	}
}

// copyTo writes the letters to an empty file, and returns where they stand. One that
// cannot be read is set aside.
func (s *Store) copyTo(f disk.File) (size int64, moved []entry, err error) {
	out := bufio.NewWriterSize(io.NewOffsetWriter(f, 0), 256<<10) // keeps the first error for Flush
	text := appendHead(nil)
	_, _ = out.Write(text)
	size = int64(len(text))
	for _, e := range s.index.entries {
		old, err := s.readLine(e, e.size())
		if err != nil {
			return 0, nil, err
		}
		l, err := parseLine(old[:len(old)-1])
		if err != nil || !l.isLetter() || l.seq != e.seq {
			if err := s.setAside(hole{e.at, e.at + e.size()}, slog.LevelWarn, damageText); err != nil {
				return 0, nil, err
			}
			continue
		}
		var head int
		text, head = appendLetter(text[:0], e.redriving, size, e.seq, l.about, l.record)
		_, _ = out.Write(text)
		e.at, e.head = size, uint16(head)
		moved = append(moved, e)
		size += int64(len(text))
	}
	return size, moved, out.Flush()
}
