package filesink

import (
	"time"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// due says whether the active file is to be finished before p is written, which
// adds size bytes.
func (s *store) due(p portion, size int64) bool {
	active, limits := s.position.file, s.config.Rotate
	if active.size == 0 {
		return false
	}
	if s.gaps.Len()+len(p.gaps) > manifest.MaxRanges {
		return true
	}
	if len(p.items) == 0 {
		return false
	}
	old, ages := s.dueAt()
	return active.form != s.config.Compress.form() ||
		limits.MaxBytes > 0 && active.size+size > int64(limits.MaxBytes) ||
		ages && !time.Now().Before(old) ||
		s.laterDay(p)
}

// dueAt is when the active file will be too old; ok is false when it never will. One
// that holds nothing but checkpoints does not age: see "Checkpoints" in the package
// comment.
func (s *store) dueAt() (at time.Time, ok bool) {
	maxAge := time.Duration(s.config.Rotate.MaxAge)
	if !s.position.hasNews() || maxAge == 0 {
		return time.Time{}, false
	}
	return s.position.opened.Add(maxAge), true
}

// day is the unit of partitions. UTC has no other days.
const day = 24 * time.Hour

func endOfDay(t time.Time) time.Time { return t.Truncate(day).Add(day) }

// laterDay says whether p begins on a later day than the active file, where files
// are by day. A record that was received a little before those of the active file
// goes with them: around midnight, sources would otherwise begin a file with each.
func (s *store) laterDay(p portion) bool {
	return s.config.Partition == Date && s.position.size > 0 &&
		!p.items[0].Received.Before(endOfDay(s.position.firstReceived))
}

// oneFile is how many items at the beginning of p, one at least where there are
// any, may go to the same file.
func (s *store) oneFile(p portion) int {
	if s.config.Partition != Date || len(p.items) == 0 {
		return len(p.items)
	}
	began := p.items[0].Received
	if active := s.position.file; active.size > 0 && active.firstReceived.After(began) {
		began = active.firstReceived
	}
	end := endOfDay(began)
	for i := range p.items {
		if !p.items[i].Received.Before(end) {
			return i
		}
	}
	return len(p.items)
}
