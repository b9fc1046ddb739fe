package deadletter

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
)

// Has reports whether seq has a letter.
func (s *Store) Has(seq uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, found := s.index.find(seq)
	return found
}

// IsRedriving reports whether seq has a letter that waits to be sent again.
func (s *Store) IsRedriving(seq uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i, found := s.index.find(seq)
	return found && s.index.entries[i].redriving
}

// Counts returns how many letters with a seq in [from, to) are kept and redriving.
func (s *Store) Counts(from, to uint64) (kept, redriving uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i, _ := s.index.find(from)
	j, _ := s.index.find(max(from, to))
	redriving = s.index.redrivingIn(i, j)
	return uint64(j-i) - redriving, redriving
}

// Stats describes the store.
func (s *Store) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Stats{Letters: len(s.index.entries), Redriving: s.index.redriving, Bytes: s.index.bytes, MaxBytes: s.opts.MaxBytes}
}

// List returns the letters without their records, in the order of seq. There may be
// many: Page gives them in parts.
func (s *Store) List() ([]Letter, error) { return s.Page(0, math.MaxInt) }

// Page returns the first letters with a seq above after, at most n, in the order of
// seq and without their records. A damaged letter has only its seq, its state, and
// the damage as its reason.
func (s *Store) Page(after uint64, n int) ([]Letter, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i, found := s.index.find(after)
	if found {
		i++
	}
	page := s.index.entries[i:]
	page = page[:min(n, len(page))]
	letters := make([]Letter, 0, len(page))
	for _, e := range page {
		l, err := s.describe(e)
		if errors.Is(err, ErrDamaged) {
			l, err = Letter{Seq: e.seq, Redriving: e.redriving, Reason: err.Error()}, nil
		}
		if err != nil {
			return nil, s.failed("list", err)
		}
		letters = append(letters, l)
	}
	return letters, nil
}

// about returns the letter of seq without its record.
func (s *Store) about(seq uint64) (Letter, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i, found := s.index.find(seq)
	if !found {
		return Letter{}, false, nil
	}
	l, err := s.describe(s.index.entries[i])
	if err != nil {
		return Letter{}, true, s.failed("read", err)
	}
	return l, true, nil
}

// Get returns the letter of seq with its record. It fails with ErrDamaged when the
// letter cannot be read. The caller owns the record.
func (s *Store) Get(seq uint64) (Letter, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
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
// letter whatever its size. A letter that turns out to be damaged is logged and counts
// as kept: it is skipped until the store is opened again. The caller owns the records.
func (s *Store) NextRedriving(before uint64, records, bytes int) ([]Letter, error) {
	letters, damaged, err := s.nextRedriving(before, records, bytes)
	if len(damaged) > 0 {
		s.passOver(damaged)
	}
	return letters, err
}

func (s *Store) nextRedriving(before uint64, records, bytes int) (letters []Letter, damaged []entry, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.index.redriving == 0 {
		return nil, nil, nil
	}
	for _, e := range s.index.entries {
		if e.seq >= before {
			break
		}
		if !e.redriving || e.damaged {
			continue
		}
		if len(letters) == records || len(letters) > 0 && int(e.record) > bytes {
			break
		}
		l, err := s.read(e)
		if errors.Is(err, ErrDamaged) {
			damaged = append(damaged, e)
			continue
		}
		if err != nil {
			return nil, damaged, s.failed("read", err)
		}
		letters = append(letters, l)
		bytes -= len(l.Record)
	}
	return letters, damaged, nil
}

// passOver marks letters that cannot be read, unless they were replaced meanwhile.
func (s *Store) passOver(damaged []entry) {
	s.change.Lock()
	defer s.change.Unlock()
	for _, d := range damaged {
		// The log is written without mu: commits wait for Counts, and a log can block.
		if s.markDamaged(d) {
			s.opts.Log.Error("dead letters: a redriven dead letter cannot be read: purge it, or docket sets it aside at the next start",
				"directory", s.dir, "seq", d.seq)
		}
	}
}

// markDamaged marks the letter of d, and reports whether it is still there.
func (s *Store) markDamaged(d entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := s.index.find(d.seq)
	if !found || s.index.entries[i].at != d.at {
		return false
	}
	s.index.entries[i].damaged, s.index.entries[i].redriving = true, false
	s.index.redriving--
	return true
}

// described returns the letter of seq without its record, if there is one to be read.
func (s *Store) described(seq uint64) (Letter, bool, error) {
	i, found := s.index.find(seq)
	if !found {
		return Letter{}, false, nil
	}
	l, err := s.describe(s.index.entries[i])
	if errors.Is(err, ErrDamaged) {
		return Letter{}, false, nil
	}
	return l, err == nil, err
}

// describe reads a letter without its record.
func (s *Store) describe(e entry) (Letter, error) {
	text, err := s.readLine(e, int64(e.start()))
	if err != nil {
		return Letter{}, err
	}
	l, err := parseStart(text)
	return s.letter(e, l, err, nil)
}

// read reads a letter.
func (s *Store) read(e entry) (Letter, error) {
	text, err := s.readLine(e, e.size())
	if err != nil {
		return Letter{}, err
	}
	l, err := parseLine(text[:len(text)-1])
	return s.letter(e, l, err, l.record)
}

// letter makes the letter of e from its line, which err says was not read.
func (s *Store) letter(e entry, l line, err error, record []byte) (Letter, error) {
	var a about
	if err == nil && l.isLetter() && l.seq == e.seq {
		a, err = parseAbout(l.about)
		if err == nil {
			a.Incarnation = cmp.Or(a.Incarnation, s.opts.Queue)
			return a.letter(e.seq, e.redriving, record), nil
		}
	}
	return Letter{}, fmt.Errorf("record %d: %w", e.seq, ErrDamaged)
}

// readLine reads the first n bytes of a letter's line. Either lock must be held.
func (s *Store) readLine(e entry, n int64) ([]byte, error) {
	if s.log == nil {
		return nil, os.ErrClosed
	}
	text := make([]byte, n)
	if _, err := s.log.ReadAt(text, e.at); err != nil {
		return nil, fmt.Errorf("record %d: read at %d: %w", e.seq, e.at, err)
	}
	return text, nil
}
