package tailsource

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/docket-export/docket/internal/rooted"
	"github.com/docket-export/docket/sources/statefile"
)

// stateVersion is that of the document. Version 1, which has no number, has the text of
// lines in pieces and not where they begin.
const stateVersion = 2

// state is what a source knows after a restart. It is never newer than what is durable
// in the queue: lines that are read again are recognised by their numbers.
type state struct {
	Version int    `json:"version"`
	Path    string `json:"path"`
	Format  Format `json:"format"`
	// Generations counts the contents that were read, so that each has a name of its
	// own among the producers.
	Generations uint64 `json:"generations"`
	// Seen is when the latest file was last seen at the path. Files that came after it
	// and went again before anybody looked were modified later.
	Seen time.Time `json:"seen"`
	// Files are those that were read: the one that is being read last, the others in
	// their order for as long as they can be found.
	Files []contents `json:"files,omitempty"`
	Carry carry      `json:"carry"`

	first bool // nothing was followed before
}

// contents is one life of a file: from its first byte until it is truncated or
// replaced.
type contents struct {
	Generation uint64 `json:"generation"`
	Producer   string `json:"producer"`
	Real       string `json:"real"` // the name under which it was found
	identity
	Copied identity `json:"copied,omitzero"` // the copy of it that was read to its end
	Head   window   `json:"head"`            // what it begins with
	Tail   window   `json:"tail"`            // what is before Offset
	Offset int64    `json:"offset"`
	Number uint64   `json:"number"` // of the last record before Offset
	Done   bool     `json:"done,omitempty"`
	// Modified is when a file that is done was last written to.
	Modified time.Time `json:"modified,omitzero"`
}

const (
	// maxDone bounds the files that are remembered as read.
	maxDone = 4096
	// keptDone are remembered in any case, to know when they grow: those that were
	// modified long before the latest file was seen are not taken for new.
	keptDone = 16
)

// forget removes the files that need not be remembered: seen is when the latest file
// that was read, or is being read, was seen at the path.
func forget(done []contents, seen time.Time) []contents {
	n := 0
	for len(done)-n > keptDone && (len(done)-n > maxDone || done[n].Modified.Before(seen.Add(-2*clockSlack))) {
		n++
	}
	return slices.Delete(done, 0, n)
}

func statePath(dir rooted.Path) rooted.Path { return dir.Join("tail.json") }

// loadState reads the state of a source. A state of another path or format is of no use
// but for its count.
func loadState(dir rooted.Path, path string, format Format, log *slog.Logger) (*state, error) {
	// Where there is no state there may have been one, with numbers that the queue
	// knows: they must not be used for other lines.
	now := time.Now()
	fresh := &state{Version: stateVersion, Path: path, Format: format, Generations: uint64(now.UnixNano()), Seen: now, first: true}
	s := &state{}
	found, err := statefile.Load(statePath(dir), stateVersion, s)
	damaged, isDamaged := errors.AsType[*statefile.DamagedError](err)
	switch {
	case isDamaged:
		log.Error("the position in the log file is lost: it is read from its beginning, and records that are in the queue are stored again", "error", damaged)
	case err != nil:
		return nil, err
	case !found:
	case s.Path != path || s.Format != format:
		log.Info("the path or the format has changed: the file is read from its beginning", "before", s.Path, "now", path, "formatBefore", s.Format, "formatNow", format)
		fresh.Generations = s.Generations
	default:
		s.Version = stateVersion
		return s, nil
	}
	// After a restart it is known since when the log is followed, even if nothing was
	// written to it until then.
	return fresh, statefile.Save(statePath(dir), fresh)
}

// CheckState implements sources.Stateful.
func (s *source) CheckState() error { return statefile.Check(statePath(s.env.StateDir), stateVersion) }

// active is the file that is being read; nil: none is.
func (s *state) active() *contents {
	if n := len(s.Files); n > 0 && !s.Files[n-1].Done {
		return &s.Files[n-1]
	}
	return nil
}

// with returns a copy of s in which c is what is known of its generation.
func (s *state) with(c contents) *state {
	next := *s
	next.Files = slices.DeleteFunc(slices.Clone(s.Files), func(o contents) bool { return o.Generation == c.Generation })
	next.Files = append(forget(next.Files, s.Seen), c)
	next.Generations = max(s.Generations, c.Generation)
	return &next
}

// matches reports whether f, which has size bytes, has the contents of c, as far as
// they were read. A file that cannot be read has not.
func (c *contents) matches(f *os.File, size int64) bool {
	if size < c.Offset || size < int64(c.Head.Length) || c.Offset < int64(c.Tail.Length) {
		return false
	}
	return c.Head.isIn(f, 0) && c.Tail.isIn(f, c.Offset-int64(c.Tail.Length))
}

func (w window) isIn(f *os.File, offset int64) bool {
	if w.Length < 0 || w.Length > headBytes {
		return false // no window that was made here
	}
	b, err := part(f, offset, w.Length)
	return err == nil && windowOf(b) == w
}
