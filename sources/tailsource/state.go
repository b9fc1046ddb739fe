package tailsource

import (
	"errors"
	"log/slog"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources/statefile"
	"github.com/docket-export/docket/sources/tailsource/follow"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

// stateVersion is that of the document. Version 1 has no number.
const stateVersion = 2

// state is what a source knows after a restart. It is never newer than what is durable
// in the queue: lines that are read again are recognised by their numbers.
type state struct {
	Version int            `json:"version"`
	Path    string         `json:"path"`
	Format  formats.Format `json:"format"`
	// Generations counts the contents that were read, so that each has a name of its
	// own among the producers.
	Generations uint64 `json:"generations"`
	follow.History
	Carry formats.Carry `json:"carry"`
}

func statePath(dir disk.Path) disk.Path { return dir.Join("tail.json") }

// loadState reads the state of a source. A state of another path or format is of no use
// but for its count. read is what is known of files that were at the path, where there is none.
func loadState(dir disk.Path, path string, format formats.Format, log *slog.Logger, read ...follow.Contents) (*state, error) {
	// Where there is no state there may have been one, with numbers that the queue
	// knows: they must not be used for other lines.
	fresh := &state{Version: stateVersion, Path: path, Format: format, Generations: uint64(time.Now().UnixNano()), History: follow.History{Files: read}}
	s := &state{}
	found, err := statefile.Load(statePath(dir), stateVersion, s)
	damaged, isDamaged := errors.AsType[*statefile.DamagedError](err)
	switch {
	case isDamaged:
		log.Error("the position in the log file is lost: docket reads the file from its beginning and stores its records again", "error", damaged)
	case err != nil:
		return nil, err
	case !found:
	case s.Path != path || s.Format != format:
		log.Info("the path or the format has changed: the file is read from its beginning", "before", s.Path, "now", path, "formatBefore", s.Format, "formatNow", format)
		fresh.Generations, fresh.Files = s.Generations, nil
	default:
		s.Version = stateVersion
		return s, nil
	}
	return fresh, nil
}

// CheckState implements sources.Stateful.
func (s *source) CheckState() error {
	logs := s.env.StateDir.Join("logs")
	dirs, _ := logs.Dirs() // there need not be any
	files := []disk.Path{statePath(s.env.StateDir), logs.Join("read.json")}
	for _, name := range dirs {
		files = append(files, statePath(logs.Join(name)))
	}
	for _, file := range files {
		if err := statefile.Check(file, stateVersion); err != nil {
			return err
		}
	}
	return nil
}

// with returns a copy of s in which c is what is known of its generation, and h of the other
// files.
func (s *state) with(h follow.History, c follow.Contents) *state {
	next := *s
	next.History = h.With(c)
	next.Generations = max(s.Generations, c.Generation)
	return &next
}
