package deadletter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fileversion"
)

const (
	logFile       = "letters.log"
	newSuffix     = ".new"
	newFile       = logFile + newSuffix
	damagedPrefix = "damaged-"
)

// Store holds the dead letters of one sink. Its methods are safe for concurrent
// use. A method that changes letters returns once the change is durable. After an
// error nothing has changed, but until the next change a crash may still complete
// the failed one.
type Store struct {
	dir   string
	place disk.Path // of dir
	opts  Options
	slack int64 // garbage that the log may hold whatever its letters

	// change is held by whoever changes the log, one at a time.
	change sync.Mutex
	// size is where the next line goes; guarded by change.
	size int64
	// holes are the damage in log, which has to be set aside before it is written;
	// guarded by change.
	holes []hole
	// broken says that log must not be written any more: its state on the disk is
	// not known, or it has lost its name. Guarded by change.
	broken bool
	// compactAt is how much garbage the next attempt to compact waits for, after one
	// that failed; guarded by change.
	compactAt int64

	mu     sync.RWMutex
	log    disk.File // nil when there is none; guarded by mu, changed under change
	index  index     // guarded by mu, changed under change
	closed bool      // guarded by change
}

// Open opens the store in dir, which the first letter creates. It reads the whole log,
// and sets aside what it cannot read. Two stores must not be open in the same directory,
// unless both are read-only. For a log of an unknown version Open returns a
// *fileversion.Error, and changes nothing in dir.
func Open(dir string, o Options) (*Store, error) {
	if err := CheckVersion(dir); err != nil {
		return nil, err
	}
	return open(placeOf(dir), o)
}

// CheckVersion reports a log in dir of a version that Open would not read, as a
// *fileversion.Error. It reads only the first line, and changes nothing.
func CheckVersion(dir string) error {
	s := &Store{dir: dir}
	log, err := placeOf(dir).Join(logFile).OpenRead()
	if err != nil {
		return nil //nolint:nilerr // Open says what is wrong; most sinks have no log yet
	}
	head := make([]byte, 64) // more than the first line has
	n, _ := log.ReadAt(head, 0)
	if err := log.Close(); err != nil {
		return err
	}
	text, _, _ := bytes.Cut(head[:n], []byte("\n"))
	if l, err := parseLine(text); err == nil && l.word == wordLog {
		return s.checkVersion(l.version)
	}
	return nil
}

func (s *Store) checkVersion(found uint64) error {
	if found == version {
		return nil
	}
	return &fileversion.Error{File: s.path(logFile), Found: found, Known: version}
}

// placeOf is dir, whose last two components are deadletters/<sink>. They and everything
// below are docket's own: no link is followed there.
func placeOf(dir string) disk.Path {
	above := filepath.Dir(dir)
	return disk.At(filepath.Dir(above)).Join(filepath.Base(above), filepath.Base(dir))
}

func open(place disk.Path, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{dir: place.String(), place: place, opts: o, slack: defaultSlack}
	if err := s.load(); err != nil {
		if s.log != nil {
			err = errors.Join(err, s.log.Close())
		}
		return nil, fmt.Errorf("dead letters in %s: %w", s.dir, err)
	}
	return s, nil
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// load reads the log, and makes durable what it found.
func (s *Store) load() error {
	if there, err := s.place.Exists(); err != nil || !there {
		return err
	}
	if !s.opts.ReadOnly {
		if err := s.place.Join(newFile).RemoveAny(); err != nil {
			return err
		}
		// A rename or a removal before a kill may not have reached the disk.
		if err := s.place.SyncDir(); err != nil {
			return err
		}
	}
	open := s.place.Join(logFile).OpenWrite
	if s.opts.ReadOnly {
		open = s.place.Join(logFile).OpenRead
	}
	var err error
	if s.log, err = open(); err != nil {
		s.log = nil
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	size, err := s.log.Size()
	if err != nil {
		return err
	}
	found, err := scan(s.log, size)
	if err != nil {
		return err
	}
	if found.unknown != nil {
		return s.checkVersion(*found.unknown)
	}
	s.index, s.size, s.holes = found.index, found.end, found.holes
	if s.opts.ReadOnly {
		s.tellDamage(found)
		return nil
	}
	return s.mend(found)
}

// tellDamage says what a store that changes nothing leaves out.
func (s *Store) tellDamage(found scanned) {
	for _, h := range found.holes {
		s.opts.Log.Warn("dead letters: a part of the log is damaged", "directory", s.dir, "offset", h.from, "bytes", h.to-h.from)
	}
}

// mend cuts a torn tail, writes the last lines again and gets rid of damage.
func (s *Store) mend(found scanned) error {
	if found.end < found.size {
		if err := s.setAside(hole{found.end, found.size}, slog.LevelInfo, "dead letters: an interrupted write was cut"); err != nil {
			return err
		}
		if err := s.log.Truncate(found.end); err != nil {
			return err
		}
	}
	if err := s.confirm(found.sure); err != nil {
		return err
	}
	s.broken = s.size == 0 // not even a first line: begin again
	if len(s.holes) == 0 {
		return nil
	}
	if err := s.rewrite(); err != nil {
		s.opts.Log.Error("dead letters: a damaged part of the log cannot be set aside yet: no change is possible until then", "directory", s.dir, "error", err)
	}
	return nil
}

// confirm makes the lines from an offset on durable. A sync alone would not: the
// pages of a sync that failed count as written.
func (s *Store) confirm(from int64) error {
	const step = 1 << 20
	buf := make([]byte, min(step, s.size-from))
	for at := from; at < s.size; at += int64(len(buf)) {
		buf = buf[:min(step, s.size-at)]
		if _, err := s.log.ReadAt(buf, at); err != nil {
			return err
		}
		if _, err := s.log.WriteAt(buf, at); err != nil {
			return err
		}
	}
	return s.log.Sync()
}

// Add makes letters durable. Their seqs differ. A letter replaces an earlier letter of
// the same seq: it keeps the time of the first failure, and the attempts are added. Add
// fails with ErrFull, and adds nothing, when one of the letters is new and all letters
// together would exceed the bound. Replacements alone never fail with ErrFull, even if
// they are larger. On return the caller owns the letters and their bytes again.
func (s *Store) Add(letters []Letter) error {
	if len(letters) == 0 {
		return nil
	}
	s.change.Lock()
	defer s.change.Unlock()
	if err := s.prepare(); err != nil {
		return s.failed("add", err)
	}
	var lines []byte
	var added []entry
	grown, more := s.index.bytes, false
	for _, l := range letters {
		before, replaces, err := s.described(l.Seq)
		if err != nil {
			return s.failed("add", err)
		}
		if replaces {
			l.FirstFailed, l.Attempts = before.FirstFailed, l.Attempts+before.Attempts
		}
		e := entry{seq: l.Seq, at: s.size + int64(len(lines)), redriving: l.Redriving}
		if lines, err = s.encode(lines, l, &e); err != nil {
			return s.failed("add", err)
		}
		added = append(added, e)
		grown += e.size()
		if i, there := s.index.find(l.Seq); there {
			grown -= s.index.entries[i].size()
		} else {
			more = true
		}
	}
	if more && s.opts.MaxBytes > 0 && grown > s.opts.MaxBytes {
		return fmt.Errorf("%w: there are %d, and with the new ones they would take %d bytes of at most %d: redrive or purge some, or raise deadLetters.maxBytes",
			ErrFull, len(s.index.entries), grown, s.opts.MaxBytes)
	}
	if err := s.write(lines); err != nil {
		return s.failed("add", err)
	}
	s.apply(func(x *index) {
		for _, e := range added {
			x.put(e)
		}
	})
	s.compact()
	return nil
}

// encode appends the line of l to lines, and fills in what e lacks.
func (s *Store) encode(lines []byte, l Letter, e *entry) ([]byte, error) {
	about, err := json.Marshal(aboutOf(l))
	if err != nil {
		return nil, fmt.Errorf("record %d: encode: %w", l.Seq, err)
	}
	if bytes.IndexByte(l.Record, '\n') >= 0 {
		return nil, fmt.Errorf("record %d: has a newline, which no record may have", l.Seq)
	}
	from := len(lines)
	lines, head := appendLetter(lines, l.Redriving, s.size, l.Seq, about, l.Record)
	if len(lines)-from > maxLine {
		return nil, fmt.Errorf("record %d: its letter would have %d bytes, at most %d are kept", l.Seq, len(lines)-from, maxLine)
	}
	e.head, e.about, e.record = uint16(head), uint32(len(about)), uint32(len(l.Record))
	return lines, nil
}

// Redrive marks the letters of seqs to be sent again, all of them for nil. It returns
// how many were not marked before.
func (s *Store) Redrive(seqs []uint64) (int, error) {
	s.change.Lock()
	defer s.change.Unlock()
	spans, n := s.index.choose(seqs, func(e entry) bool { return !e.redriving && !e.damaged })
	if n == 0 {
		return 0, nil
	}
	if err := s.prepare(); err != nil {
		return 0, s.failed("redrive", err)
	}
	if err := s.write(appendChange(nil, wordRedrive, s.size, spans)); err != nil {
		return 0, s.failed("redrive", err)
	}
	s.apply(func(x *index) { x.redrive(spans) })
	return n, nil
}

// Remove forgets the letters of seqs, all of them for nil. It returns how many
// letters it removed. Removing all letters works on a full disk.
func (s *Store) Remove(seqs []uint64) (int, error) {
	s.change.Lock()
	defer s.change.Unlock()
	spans, n := s.index.choose(seqs, func(entry) bool { return true })
	if n == 0 {
		return 0, nil
	}
	remove := func() error { return s.write(appendChange(nil, wordRemove, s.size, spans)) }
	ready := s.prepare
	if n == len(s.index.entries) {
		remove, ready = s.unlink, s.prepareToUnlink
	}
	if err := ready(); err != nil {
		return 0, s.failed("remove", err)
	}
	if err := remove(); err != nil {
		return 0, s.failed("remove", err)
	}
	s.apply(func(x *index) { x.remove(spans) })
	s.compact()
	return n, nil
}

// Close releases the store. A second call does nothing.
func (s *Store) Close() error {
	s.change.Lock()
	defer s.change.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.log == nil {
		return nil
	}
	err := s.log.Close()
	s.log = nil
	return err
}

// apply changes the index.
func (s *Store) apply(do func(*index)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(&s.index)
}

func (s *Store) failed(what string, err error) error {
	return fmt.Errorf("dead letters in %s: %s: %w", s.dir, what, err)
}

// errReadOnly is for those who open a store to look at it.
var errReadOnly = fmt.Errorf("opened read-only: %w", os.ErrPermission)
