package deadletter

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fileversion"
)

const (
	logFile       = "letters.log"
	damagedPrefix = "damaged-"
	// defaultSlack is little on any disk, and enough that a log of few letters is not written anew
	// each time one of them goes.
	defaultSlack = 1 << 20
	// maxChange is more than one change writes: the letters of a batch.
	maxChange = 64 << 20
)

// Store holds the dead letters of one sink. Its methods are safe for concurrent
// use. A method that changes letters returns once the change is durable. After an
// error nothing has changed, but until the next change a crash may still complete
// the failed one.
type Store struct {
	place disk.Path // of the directory
	opts  Options
	slack int64 // garbage that the log may hold whatever its letters
	stats atomic.Pointer[Stats]

	mu     sync.Mutex
	log    disk.File // nil when there is none; guarded by mu, as is the rest
	size   int64     // where the next line goes
	index  index
	closed bool
	// damaged says that a part of log cannot be read, and was not set aside yet.
	damaged bool
	// broken says that log must not be written any more: its state on the disk is
	// not known, or it has lost its name.
	broken bool
	// compactAt is how much garbage the next attempt to compact waits for, after one
	// that failed.
	compactAt int64
}

// Open opens the store in dir, which the first letter creates. It reads the whole log,
// and sets aside one that is damaged. Two stores must not be open in the same directory.
// For a log of an unknown version Open returns a *fileversion.Error, and changes nothing in dir.
func Open(dir string, o Options) (*Store, error) {
	if err := CheckVersion(dir); err != nil {
		return nil, err
	}
	return open(placeOf(dir), o)
}

// CheckVersion reports a log in dir of a version that Open would not read, as a
// *fileversion.Error. It reads only the first line, and changes nothing.
func CheckVersion(dir string) error {
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
	var found uint64
	if l, err := parseLine(text); err == nil {
		found = uint64(l.Version)
	} else if _, err := fmt.Sscanf(string(text), "%8x log 0 %d", new(uint32), &found); err != nil {
		return nil // it is damaged
	}
	if found != version {
		return &fileversion.Error{File: filepath.Join(dir, logFile), Found: found, Known: version}
	}
	return nil
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
	s := &Store{place: place, opts: o, slack: defaultSlack}
	if err := s.load(); err != nil {
		if s.log != nil {
			err = errors.Join(err, s.log.Close())
		}
		return nil, s.failed("open", err)
	}
	s.tally()
	return s, nil
}

// load reads the log, and makes durable what it found.
func (s *Store) load() error {
	if there, err := s.place.Exists(); err != nil || !there {
		return err
	}
	if err := s.place.Join(logFile + disk.NewSuffix).RemoveAny(); err != nil {
		return err
	}
	// A rename or a removal before a kill may not have reached the disk.
	if err := s.place.SyncDir(); err != nil {
		return err
	}
	var err error
	if s.log, err = s.place.Join(logFile).OpenWrite(); err != nil {
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
	if err := s.scan(size); err != nil {
		return err
	}
	if s.size < size {
		s.opts.Log.Info("dead letters: an interrupted write was cut", "directory", s.place.String(), "bytes", size-s.size)
		if err := s.log.Truncate(s.size); err != nil {
			return err
		}
	}
	if err := s.confirm(); err != nil {
		return err
	}
	s.broken = s.size == 0 // not even a first line: begin again
	if s.damaged {
		if err := s.rewrite(); err != nil {
			s.opts.Log.Error("dead letters: a damaged log cannot be set aside yet: no change is possible until then", "directory", s.place.String(), "error", err)
		}
	}
	return nil
}

// confirm makes durable what the last change has written. A sync alone would not: the pages of a sync
// that failed count as written.
func (s *Store) confirm() error {
	buf := make([]byte, 1<<20)
	for at := max(0, s.size-maxChange); at < s.size; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), s.size-at)]
		if _, err := s.log.ReadAt(buf, at); err != nil {
			return err
		}
		if _, err := s.log.WriteAt(buf, at); err != nil {
			return err
		}
	}
	return s.log.Sync()
}

// scan reads the lines of a log of this size. Its error is that the file cannot be read.
func (s *Store) scan(size int64) error {
	lines := bufio.NewReaderSize(io.NewSectionReader(s.log, 0, size), 256<<10)
	for s.size < size {
		text, n, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return nil // the rest has no newline
		}
		if err != nil {
			return err
		}
		l, err := parseLine(text)
		switch {
		case err != nil:
			s.damaged = true
		case l.Seq > 0:
			s.index.put(entry{seq: l.Seq, at: s.size, size: int32(n)})
		default:
			s.index.redrive(l.Redrive, true)
			s.index.remove(l.Remove)
		}
		s.size += n
	}
	return nil
}

// readLine returns the next line without its newline, nothing of one that is longer than any. n is
// how many bytes it has with the newline. Its error is io.EOF when there is no newline.
func readLine(r *bufio.Reader) (text []byte, n int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		n += int64(len(part))
		if n <= maxLine {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, n, err
		case n > maxLine:
			return nil, n, nil
		default:
			return text[:len(text)-1], n, nil
		}
	}
}

// Add makes letters durable. Their seqs differ. A letter replaces an earlier letter of
// the same seq: it keeps the time of the first failure, and the attempts are added. Add
// fails with ErrFull, and adds nothing, when one of the letters is new and all letters
// together would exceed the bound. Replacements alone never fail with ErrFull, even if
// they are larger. On return the caller owns the letters and their bytes again.
func (s *Store) Add(letters []Letter) error { return s.add(letters, false) }

// Return is Add for letters that were to be sent again: it leaves out those that were removed
// meanwhile.
func (s *Store) Return(letters []Letter) error { return s.add(letters, true) }

func (s *Store) add(letters []Letter, replace bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.prepare(); err != nil {
		return s.failed("add", err)
	}
	var lines []byte
	var added []entry
	grown, more := s.index.bytes, false
	for _, l := range letters {
		i, replaces := s.index.find(l.Seq)
		if replace && !replaces {
			continue
		}
		if replaces {
			grown -= int64(s.index.entries[i].size)
			before, err := s.read(s.index.entries[i])
			if err == nil {
				l.FirstFailed, l.Attempts = before.FirstFailed, l.Attempts+before.Attempts
			} else if !errors.Is(err, ErrDamaged) {
				return s.failed("add", err)
			}
		}
		more = more || !replaces
		at, text := len(lines), line{Letter: l}
		var err error
		if lines, err = text.append(lines); err != nil {
			return s.failed("add", fmt.Errorf("record %d: %w", l.Seq, err))
		}
		added = append(added, entry{seq: l.Seq, at: s.size + int64(at), size: int32(len(lines) - at)})
		grown += int64(len(lines) - at)
	}
	if more && s.opts.MaxBytes > 0 && grown > s.opts.MaxBytes {
		return fmt.Errorf("%w: there are %d, and with the new ones they would take %d bytes of at most %d: redrive or purge some, or raise deadLetters.maxBytes",
			ErrFull, len(s.index.entries), grown, s.opts.MaxBytes)
	}
	if len(added) == 0 {
		return nil
	}
	if err := s.write(lines); err != nil {
		return s.failed("add", err)
	}
	for _, e := range added {
		s.index.put(e)
	}
	s.changed()
	return nil
}

// Redrive marks the letters of seqs to be sent again, all of them for nil. It returns
// how many were not marked before.
func (s *Store) Redrive(seqs []uint64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chosen := s.index.choose(seqs, func(e entry) bool { return !e.redriving })
	if len(chosen) == 0 {
		return 0, nil
	}
	err := s.prepare()
	if err == nil {
		err = s.append(line{Redrive: chosen})
	}
	if err != nil {
		return 0, s.failed("redrive", err)
	}
	s.index.redrive(chosen, true)
	s.changed()
	return len(chosen), nil
}

// Remove forgets the letters of seqs, all of them for nil. It returns how many
// letters it removed. Removing all letters works on a full disk.
func (s *Store) Remove(seqs []uint64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chosen := s.index.choose(seqs, func(entry) bool { return true })
	if len(chosen) == 0 {
		return 0, nil
	}
	var err error
	if len(chosen) == len(s.index.entries) {
		err = s.unlink()
	} else if err = s.prepare(); err == nil {
		err = s.append(line{Remove: chosen})
	}
	if err != nil {
		return 0, s.failed("remove", err)
	}
	s.index.remove(chosen)
	s.changed()
	return len(chosen), nil
}

// Close releases the store. A second call does nothing.
func (s *Store) Close() error {
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

// prepare makes sure that the log can take a line: it writes a new one when there
// is none, or none that may be written. Callers hold mu, as for what follows.
func (s *Store) prepare() error {
	if s.closed {
		return os.ErrClosed
	}
	if s.log == nil || s.broken || s.damaged {
		return s.rewrite()
	}
	return nil
}

func (s *Store) append(l line) error {
	text, err := l.append(nil)
	if err != nil {
		return err
	}
	return s.write(text)
}

// write appends lines and makes them durable. What a failure leaves of them is taken
// back, so that no later start finds it.
func (s *Store) write(lines []byte) error {
	l := disk.Log{File: s.log, End: s.size}
	err := l.Append(lines)
	s.size, s.broken = l.End, s.broken || l.IsBroken()
	return err
}

// unlink removes the log, or keeps a damaged one under another name.
func (s *Store) unlink() error {
	if s.closed {
		return os.ErrClosed
	}
	name := s.place.Join(logFile)
	remove := name.RemoveAny
	if s.damaged {
		aside, err := s.asideName()
		if err != nil {
			return err
		}
		remove = func() error { return name.Rename(aside) }
	}
	if err := remove(); err != nil {
		return err
	}
	s.broken = true // without a name: what is written to it is lost
	if err := s.place.SyncDir(); err != nil {
		return err
	}
	_ = s.log.Close() // nothing of it is needed any more
	s.log, s.size, s.damaged, s.broken, s.compactAt = nil, 0, false, false, 0
	return nil
}

// rewrite puts a new log with the letters in the place of the one there is, or begins
// the first. After an error the old one is as it was, save that it may have lost
// its name.
func (s *Store) rewrite() error {
	if err := s.place.MakeDir(); err != nil {
		return err
	}
	if s.damaged {
		if err := s.setAside(); err != nil {
			return err
		}
	}
	var moved index
	var size int64
	name := s.place.Join(logFile)
	var f disk.File
	err := name.ReplaceBy(func(f disk.File) (err error) {
		moved, size, err = s.copyTo(f)
		return err
	})
	if err == nil {
		f, err = name.OpenWrite()
	}
	if err != nil {
		// Until the name is durable both are the log.
		s.broken = s.broken || s.log != nil && s.log.Check() != nil
		return err
	}
	if s.log != nil {
		_ = s.log.Close() // nothing of it is needed any more
	}
	s.log, s.size, s.index = f, size, moved
	s.damaged, s.broken, s.compactAt = false, false, 0
	return nil
}

// copyTo writes the letters to an empty file, and returns where they stand. One that
// cannot be read is left out: the log is set aside first.
func (s *Store) copyTo(f disk.File) (moved index, size int64, err error) {
	out := bufio.NewWriterSize(io.NewOffsetWriter(f, 0), 256<<10) // keeps the first error for Flush
	put := func(l line) error {
		text, err := l.append(nil)
		_, _ = out.Write(text)
		size += int64(len(text))
		return err
	}
	if err := put(line{Version: version}); err != nil {
		return moved, 0, err
	}
	var redriving []uint64
	for _, e := range s.index.entries {
		letter, err := s.read(e)
		if errors.Is(err, ErrDamaged) && !s.damaged {
			if err := s.setAside(); err != nil {
				return moved, 0, err
			}
			s.damaged = true
		}
		if errors.Is(err, ErrDamaged) {
			continue
		}
		if err != nil {
			return moved, 0, err
		}
		at := size
		if err := put(line{Letter: letter}); err != nil {
			return moved, 0, err
		}
		moved.put(entry{seq: e.seq, at: at, size: int32(size - at)})
		if e.redriving {
			redriving = append(redriving, e.seq)
		}
	}
	if len(redriving) > 0 {
		if err := put(line{Redrive: redriving}); err != nil {
			return moved, 0, err
		}
		moved.redrive(redriving, true)
	}
	return moved, size, out.Flush()
}

// asideName is a name for the log that says what is in it, so that a second attempt makes no
// second copy.
func (s *Store) asideName() (disk.Path, error) {
	size, err := s.log.Size()
	if err != nil {
		return disk.Path{}, err
	}
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.NewSectionReader(s.log, 0, size)); err != nil {
		return disk.Path{}, fmt.Errorf("read the damaged log: %w", err)
	}
	return s.place.Join(fmt.Sprintf("%s%08x-%d", damagedPrefix, sum.Sum32(), size)), nil
}

// setAside makes a durable copy of the log.
func (s *Store) setAside() error {
	aside, err := s.asideName()
	if err != nil {
		return err
	}
	there, err := aside.Exists()
	if err == nil && !there {
		err = aside.ReplaceBy(func(f disk.File) error {
			size, err := s.log.Size()
			if err == nil {
				_, err = io.Copy(io.NewOffsetWriter(f, 0), io.NewSectionReader(s.log, 0, size))
			}
			return err
		})
	}
	if err == nil {
		err = s.place.SyncDir()
	}
	if err != nil {
		return fmt.Errorf("set aside the damaged log: %w", err)
	}
	s.opts.Log.Log(context.Background(), slog.LevelWarn, "dead letters: a damaged log was set aside, and the letters in its whole lines are kept", "file", aside.String())
	return nil
}

// changed compacts the log when more of it is garbage than letters. That it cannot
// be is no failure of what was done before: it is tried again later.
func (s *Store) changed() {
	defer s.tally()
	garbage := s.size - s.index.bytes
	if s.log == nil || garbage <= max(s.slack, s.index.bytes, s.compactAt) {
		return
	}
	if err := s.rewrite(); err != nil {
		s.compactAt = 2 * garbage
		s.opts.Log.Warn("dead letters: the log cannot be rewritten, so removed letters still take space", "directory", s.place.String(), "bytes", garbage, "error", err)
	}
}

func (s *Store) tally() {
	s.stats.Store(&Stats{Letters: len(s.index.entries), Redriving: s.index.redriving, Bytes: s.index.bytes, MaxBytes: s.opts.MaxBytes})
}

func (s *Store) failed(what string, err error) error {
	return fmt.Errorf("dead letters in %s: %s: %w", s.place, what, err)
}

// Count returns how many letters have a seq in [from, to).
func (s *Store) Count(from, to uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := s.index.find(from)
	j, _ := s.index.find(max(from, to))
	return uint64(j - i)
}

// Stats describes the store. It waits for no disk.
func (s *Store) Stats() Stats { return *s.stats.Load() }

// Page returns the first letters with a seq above after, at most n, in the order of
// seq and without their records. A damaged letter has only its seq, its state, and
// the damage as its reason.
func (s *Store) Page(after uint64, n int) ([]Letter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := s.index.find(after + 1)
	page := s.index.entries[i:]
	page = page[:min(n, len(page))]
	letters := make([]Letter, 0, len(page))
	for _, e := range page {
		l, err := s.read(e)
		if errors.Is(err, ErrDamaged) {
			l, err = Letter{Seq: e.seq, Redriving: e.redriving, Reason: err.Error()}, nil
		}
		if err != nil {
			return nil, s.failed("list", err)
		}
		l.Record = nil
		letters = append(letters, l)
	}
	return letters, nil
}

// Get returns the letter of seq with its record. It fails with ErrDamaged when the
// letter cannot be read. The caller owns the record.
func (s *Store) Get(seq uint64) (Letter, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := s.index.find(seq)
	if !found {
		return Letter{}, false, nil
	}
	l, err := s.read(s.index.entries[i])
	if err != nil {
		return Letter{}, true, s.failed("read", err)
	}
	return l, true, nil
}

// NextRedriving returns letters to be sent again with a seq below before, in the order
// of seq. It returns at most the given number of records and bytes, but the first
// letter whatever its size. A letter that turns out to be damaged is logged and waits for nothing
// any more. The caller owns the records.
func (s *Store) NextRedriving(before uint64, records, bytes int) (letters []Letter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tally()
	for i := 0; i < len(s.index.entries) && s.index.redriving > 0; i++ {
		e := s.index.entries[i]
		if e.seq >= before || len(letters) == records {
			break
		}
		if !e.redriving {
			continue
		}
		l, err := s.read(e)
		if errors.Is(err, ErrDamaged) {
			s.index.redrive([]uint64{e.seq}, false)
			s.opts.Log.Error("dead letters: a redriven dead letter cannot be read: purge it, or docket sets the log aside at the next start",
				"directory", s.place.String(), "seq", e.seq)
			continue
		}
		if err != nil {
			return nil, s.failed("read", err)
		}
		if bytes -= len(l.Record); bytes < 0 && len(letters) > 0 {
			break
		}
		letters = append(letters, l)
	}
	return letters, nil
}

// read reads a letter. Callers hold mu.
func (s *Store) read(e entry) (Letter, error) {
	if s.log == nil {
		return Letter{}, os.ErrClosed
	}
	text := make([]byte, e.size)
	if _, err := s.log.ReadAt(text, e.at); err != nil && !errors.Is(err, io.EOF) {
		return Letter{}, fmt.Errorf("record %d: read at %d: %w", e.seq, e.at, err)
	}
	l, err := parseLine(text[:len(text)-1])
	if err != nil || l.Seq != e.seq {
		return Letter{}, fmt.Errorf("record %d: %w", e.seq, ErrDamaged)
	}
	l.Redriving = e.redriving
	return l.Letter, nil
}
