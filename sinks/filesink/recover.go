package filesink

import (
	"errors"
	"log/slog"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks"
)

// openStore opens the directory of c and repairs it after a crash or a failure. The
// package comment tells each state that it may find, and the repair.
func openStore(c Config, log *slog.Logger, place disk.Path, e *encoder) (*store, error) {
	s := &store{dir: c.Directory, config: c, log: log, place: place, encoder: e}
	err := s.recover()
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// lock takes the lock file, which ends with the process at the latest. The file itself
// stays: removing it would let two processes hold two locks.
func lock(path disk.Path) (disk.Lock, error) {
	l, err := path.Lock()
	if inUse, ok := errors.AsType[*disk.InUseError](err); ok {
		return nil, sinks.Failf(sinks.Misconfigured,
			"file sink: lock %s: held by %s: give each sink a directory of its own, or stop that process", inUse.Path, inUse.Holder)
	}
	return l, err
}

func (s *store) recover() (err error) {
	if s.lock, err = lock(s.at(lockName)); err != nil {
		return err
	}
	renamed, err := s.takePosition()
	if err != nil {
		return err
	}
	chain, err := s.chain()
	if err != nil {
		return err
	}
	if renamed { // before any other sync of the directory
		if err := s.syncRename(); err != nil {
			return err
		}
	}
	if err := s.openManifest(); err != nil {
		return err
	}
	if err := s.replacePosition(s.position, s.gaps); err != nil {
		return err
	}
	if err := s.readEnds(); err != nil {
		return err
	}
	if renamed {
		if err := s.noteFinished(chain); err != nil {
			return err
		}
	}
	return s.openActive()
}

// takePosition reads the position and brings it into agreement with the directory,
// without a change to the active file. renamed says that this has its final name
// already.
func (s *store) takePosition() (renamed bool, err error) {
	found, err := readPosition(s.at(positionName))
	if err != nil {
		return false, err
	}
	if !found.sound {
		if err := s.setAside(found.exists); err != nil {
			return false, err
		}
		return false, s.adoptManifest()
	}
	s.position, s.gaps = found.position, found.gaps
	size, err := s.at(activeName(s.position.form)).Size()
	if err != nil {
		return false, err
	}
	if renamed, err = s.renamed(size); err != nil || renamed {
		return renamed, err
	}
	s.position.finishing = time.Time{}
	if s.position.size > 0 && size < s.position.size {
		return false, s.shrunk(size)
	}
	if found.doubtful {
		return false, s.keepActiveTail(size)
	}
	return false, nil
}

// renamed says whether the active file, which has this size, was being finished
// and has its final name. It may also be gone: somebody collects finished files.
func (s *store) renamed(size int64) (bool, error) {
	if s.position.finishing.IsZero() {
		return false, nil
	}
	if size < 0 {
		return true, nil
	}
	return s.at(s.position.finishedName(s.position.finishing)).Exists()
}

// shrunk reports an active file that has lost accepted records.
func (s *store) shrunk(size int64) error {
	p := s.position
	return sinks.Failf(sinks.Misconfigured,
		"file sink: %s has %d bytes, but %d were accepted (seqs %d to %d): restore the file, "+
			"or, to continue without the missing part, move %s to another directory",
		s.path(activeName(p.form)), max(size, 0), p.size, p.first, p.lastRecord, s.path(positionName))
}

// openActive opens the active file at its accepted size. One without accepted
// records is made anew, whatever it holds.
func (s *store) openActive() (err error) {
	if s.position.size == 0 {
		for f := range forms {
			if err := s.at(activeName(f)).RemoveAny(); err != nil {
				return err
			}
		}
		return s.begin()
	}
	if s.active, err = s.at(activeName(s.position.form)).OpenWrite(); err != nil {
		return err
	}
	return s.cutBack()
}
