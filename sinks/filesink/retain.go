package filesink

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// keptFile is a finished file that the manifest says is there.
type keptFile struct {
	name     string
	bytes    int64
	finished time.Time
	hasNews  bool // it may hold more than checkpoints: the manifest does not tell
}

func keptOf(e *manifest.Entry) keptFile {
	return keptFile{name: e.Name, bytes: e.Bytes, finished: e.Finished, hasNews: true}
}

// removeOld removes the finished files that go beyond the limits, oldest first,
// and says how many the manifest has been told of. It is told before a removal
// happens, so that the absence of a file is always accounted for. A file that is
// not in the manifest is none of this sink's and stays.
func (s *store) removeOld() (removed int, err error) {
	if s.config.Retain != (Retain{}) {
		if removed, err = s.noteOld(); err != nil {
			return 0, err
		}
	}
	return removed, s.settle()
}

// noteOld says in the manifest which files are to go.
func (s *store) noteOld() (noted int, err error) {
	if err := s.listKept(); err != nil {
		return 0, err
	}
	reasons := s.config.Retain.beyond(s.kept, time.Now())
	if len(reasons) == 0 {
		return 0, nil
	}
	if err := s.forgetMissing(); err != nil {
		return 0, err
	}
	reasons = s.config.Retain.beyond(s.kept, time.Now())
	if len(reasons) == 0 {
		return 0, nil
	}
	if err := s.noteRemoved(reasons); err != nil {
		return 0, err
	}
	s.kept = slices.Delete(s.kept, 0, len(reasons))
	return len(reasons), nil
}

// beyond returns, for as many of the oldest files as have to go, the limit that
// each is beyond. The newest stays: somebody may be about to read it.
func (r Retain) beyond(files []keptFile, now time.Time) (reasons []manifest.RemovalReason) {
	var total int64
	for i := range files {
		total += files[i].bytes
	}
	for len(files) > 1 {
		reason, is := r.reason(files[0], len(files), total, now)
		if !is {
			break
		}
		reasons = append(reasons, reason)
		total -= files[0].bytes
		files = files[1:]
	}
	return reasons
}

// reason is the limit that f is beyond, the oldest of so many files with total
// bytes.
func (r Retain) reason(f keptFile, files int, total int64, now time.Time) (reason manifest.RemovalReason, is bool) {
	switch {
	case r.MaxAge > 0 && now.Sub(f.finished) >= time.Duration(r.MaxAge):
		return manifest.MaxAge, true
	case r.MaxFiles > 0 && files > r.MaxFiles:
		return manifest.MaxFiles, true
	case r.MaxTotalBytes > 0 && total > int64(r.MaxTotalBytes):
		return manifest.MaxTotalBytes, true
	}
	return "", false
}

// DiskBytes implements sinks.Keeper. Beside the finished files that stay, it counts
// the active file and, for a moment, the file that was finished last.
func (c *Config) DiskBytes(batch int64) (bytes int64, key string) {
	r := c.Retain
	if c.Rotate.MaxBytes == 0 {
		return 0, "rotate.maxBytes"
	}
	file := max(int64(c.Rotate.MaxBytes), batch)
	switch {
	case r.MaxTotalBytes > 0:
		bytes = int64(r.MaxTotalBytes)
	case r.MaxFiles > 0:
		bytes = int64(r.MaxFiles) * file
	default:
		return 0, "retain.maxTotalBytes"
	}
	return bytes + 2*file, ""
}

// removalAt is when the oldest finished file will be too old; ok is false when
// none will be.
func (s *store) removalAt() (at time.Time, ok bool) {
	if s.config.Retain.MaxAge == 0 || len(s.kept) < 2 {
		return time.Time{}, false
	}
	return s.kept[0].finished.Add(time.Duration(s.config.Retain.MaxAge)), true
}

// listKept reads from the manifest which finished files there are.
func (s *store) listKept() error {
	if s.listed {
		return nil
	}
	var all listing
	if err := s.eachLine(0, all.add); err != nil {
		return err
	}
	s.kept, s.listed = all.kept(), true
	return nil
}

// listing collects the finished files of a manifest.
type listing struct {
	files   []keptFile
	removed map[string]bool
}

func (a *listing) add(l *manifest.Line) {
	switch {
	case l.Removed != nil:
		if a.removed == nil {
			a.removed = map[string]bool{}
		}
		a.removed[l.Removed.Name] = true
	case manifest.IsFinished(l.Entry.Name):
		a.files = append(a.files, keptOf(l.Entry))
	}
}

// kept is what the lines so far leave, oldest first. It is called once.
func (a *listing) kept() []keptFile {
	return slices.DeleteFunc(a.files, func(f keptFile) bool { return a.removed[f.name] })
}

// Deletes implements sinks.Deleter.
func (c *Config) Deletes() (files int, bytes int64, err error) {
	if c.Retain == (Retain{}) {
		return 0, 0, nil
	}
	place := disk.At(c.Directory)
	kept, err := readKept(place)
	if err == nil {
		kept, err = present(place, kept)
	}
	if err != nil {
		return 0, 0, failure("count the finished files", err)
	}
	files = len(c.Retain.beyond(kept, time.Now()))
	for _, f := range kept[:files] {
		bytes += f.bytes
	}
	return files, bytes, nil
}

// readKept is listKept for who may not change the export.
func readKept(place disk.Path) ([]keptFile, error) {
	f, err := place.Join(manifest.FileName).OpenRead()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written through it
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	var all listing
	_, err = eachText(io.NewSectionReader(f, 0, size), func(text []byte) {
		if line, err := manifest.Decode(text); err == nil { // others stay unread by the sink too
			all.add(line)
		}
	})
	return all.kept(), err
}

// present is those of files that are there.
func present(place disk.Path, files []keptFile) (left []keptFile, err error) {
	for _, f := range files {
		there, err := place.Join(f.name).Exists()
		if err != nil {
			return nil, err
		}
		if there {
			left = append(left, f)
		}
	}
	return left, nil
}

// forgetMissing leaves out files that somebody else has taken away: the manifest
// must not say that the sink did.
func (s *store) forgetMissing() error {
	left, err := present(s.place, s.kept)
	if err != nil {
		return err
	}
	if n := len(s.kept) - len(left); n > 0 {
		s.log.Warn("finished files are missing, and retention did not remove them", "directory", s.dir, "files", n)
	}
	s.kept = left
	return nil
}

// noteRemoved says in the manifest that the oldest files are removed, and in the
// position that they are about to be.
func (s *store) noteRemoved(reasons []manifest.RemovalReason) error {
	chain, err := s.chain()
	if err != nil {
		return err
	}
	var lines, line []byte
	for i, reason := range reasons {
		line, chain, err = chain.Removed(manifest.Removed{Name: s.kept[i].name, Reason: reason, Time: time.Now()})
		if err != nil {
			return err
		}
		lines = append(lines, line...)
	}
	if err := s.addToManifest(lines); err != nil {
		s.broken = true
		return err
	}
	next := s.position
	next.manifest += int64(len(lines))
	next.chain = chain.Previous
	if err := s.replacePosition(next, s.gaps); err != nil {
		return err
	}
	s.ends.isNews = s.ends.isNews || slices.ContainsFunc(s.kept[:len(reasons)], func(f keptFile) bool { return f.hasNews })
	return nil
}

// settle removes the files that the manifest says are removed since the position
// was settled. A file that is already gone was removed before a crash. A file that
// cannot be removed is an error that does not stop the export: the removal is tried again.
func (s *store) settle() error {
	if s.position.settled == s.position.manifest {
		return nil
	}
	var failed error
	directories := map[string]bool{}
	err := s.eachLine(s.position.settled, func(l *manifest.Line) {
		if l.Removed == nil || !manifest.IsFinished(l.Removed.Name) {
			return
		}
		there, err := s.at(l.Removed.Name).Exists()
		if err == nil && there {
			err = s.at(l.Removed.Name).RemoveAny()
		}
		if err != nil {
			failed = errors.Join(failed, err)
			return
		}
		directories[path.Dir(l.Removed.Name)] = true
		if !there {
			return // removed before, and said
		}
		s.log.Info("removed file", "file", s.path(l.Removed.Name), "reason", string(l.Removed.Reason))
	})
	for _, name := range slices.Sorted(maps.Keys(directories)) {
		if err := s.at(name).SyncDir(); !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	next := s.position
	next.settled = next.manifest
	return s.savePosition(next, nil)
}
