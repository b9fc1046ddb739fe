package filesink

import (
	"time"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// due says whether the active file is to be finished before p is written. A batch that will be
// compressed counts as it is.
func (s *store) due(p portion) bool {
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
		limits.MaxBytes > 0 && active.size+lineBytes(p.items) > int64(limits.MaxBytes) ||
		ages && !time.Now().Before(old)
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
