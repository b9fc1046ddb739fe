package inspect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// ErrNoQueue says that a directory holds no queue, or does not exist.
var ErrNoQueue = errors.New("not found")

// Queue is a queue on which no exporter runs. It is locked, so that no exporter can start
// on it, unless OpenToLook opened it. Contents, Read, Check and PlanReplay create and
// change no file. Replay changes the queue. For one goroutine.
type Queue struct {
	dir  string
	fsys disk.FS
	// lock is nil where the directory has no lock file, and so nobody works on
	// it: to look at a queue makes no file.
	lock io.Closer

	found      *state.Survey
	quarantine []StoredFile // what was set aside
	sizeErrs   []fileError

	read, toRead atomic.Int64 // see Progress
}

type fileError struct {
	name string
	err  error
}

// StoredFile is a file in the queue's directory.
type StoredFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Opener is Open or OpenToLook.
type Opener func(dir string, fsys disk.FS) (*Queue, error)

// Open locks the queue in dir until Close. It fails with *InUseError while an
// exporter runs on the queue, and with ErrNoQueue when dir has no queue. It does
// not fail for damage. fsys may be nil for the operating system's.
func Open(dir string, fsys disk.FS) (*Queue, error) {
	if fsys == nil {
		fsys = disk.OS(dir)
	}
	o := &Queue{dir: dir, fsys: fsys}
	names, err := o.names()
	if err != nil {
		return nil, err
	}
	if slices.Contains(names, state.LockFile) {
		if err := o.acquire(); err != nil {
			return nil, err
		}
	}
	if err := o.look(); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// OpenToLook is Open for reading: it changes nothing, and an exporter can start at any
// time. Records that an exporter removes meanwhile are gone. Do not call methods that change
// the queue.
func OpenToLook(dir string, fsys disk.FS) (*Queue, error) {
	if fsys == nil {
		fsys = disk.ReadOnly(dir)
	}
	o := &Queue{dir: dir, fsys: fsys}
	if _, err := o.names(); err != nil {
		return nil, err
	}
	shared, err := state.Share(fsys, dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = shared.Close() }() // which cannot fail
	return o, o.look()
}

// names are those of the queue's directory.
func (o *Queue) names() ([]string, error) {
	names, err := o.fsys.List(o.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("queue %s: %w: no such directory", o.dir, ErrNoQueue)
	}
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", o.dir, err)
	}
	if !slices.ContainsFunc(names, isQueueFile) {
		return nil, fmt.Errorf("queue %s: %w: the directory holds neither segments nor cursors", o.dir, ErrNoQueue)
	}
	return names, nil
}

// OfLive returns the queue in dir of a running exporter: found describes it and files reads
// it. Call only Contents, Read, PlanReplay, ReplayAt, and methods without an error.
func OfLive(dir string, files disk.FS, found *state.Survey) (*Queue, error) {
	o := &Queue{dir: dir, fsys: files, found: found}
	return o, o.listFiles()
}

// isQueueFile reports whether name is that of a file that only a queue has.
func isQueueFile(name string) bool {
	_, isSegment := segment.ParseName(name)
	return isSegment || name == state.CursorsFile || name == state.PositionsFile
}

// acquire makes sure that nobody else works on the queue.
func (o *Queue) acquire() (err error) {
	if o.lock == nil {
		o.lock, err = state.Lock(o.fsys, o.dir)
	}
	return err
}

// Close releases the queue.
func (o *Queue) Close() error {
	if o.lock == nil {
		return nil
	}
	err := o.lock.Close()
	o.lock = nil
	return err
}

// Progress is how many bytes of the segments the current or last pass has read, and how
// many there are. It may be called during any other call.
func (o *Queue) Progress() (done, total int64) { return o.read.Load(), o.toRead.Load() }

// ID is the UUID of the queue, or the zero UUID when no file says it.
func (o *Queue) ID() string { return o.found.Queue.String() }

// Directory is the directory of the queue.
func (o *Queue) Directory() string { return o.dir }

func (o *Queue) at(name ...string) disk.Path { return disk.On(o.fsys, o.dir).Join(name...) }

func (o *Queue) path(name ...string) string { return o.at(name...).String() }

// look makes the survey.
func (o *Queue) look() error {
	found, err := state.Look(o.fsys, o.dir)
	if err != nil {
		return fmt.Errorf("queue %s: list: %w", o.dir, err)
	}
	o.found = found
	if c := found.Cursors; c != nil {
		c.File.Close()
	} else if err := errors.Unwrap(found.CursorsErr); err != nil && !errors.Is(err, state.ErrOtherQueue) {
		found.CursorsErr = err // findings name the file themselves
	}
	if err := found.UnknownVersion(); err != nil {
		return fmt.Errorf("queue %s: %w", o.dir, err)
	}
	return o.listFiles()
}

// listFiles takes note of the files beside those of the log.
func (o *Queue) listFiles() error {
	o.quarantine, o.sizeErrs = []StoredFile{}, nil
	names, err := o.fsys.List(o.path(state.QuarantineDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("queue %s: list %s: %w", o.dir, state.QuarantineDir, err)
	}
	slices.Sort(names)
	for _, name := range names {
		o.quarantine = append(o.quarantine, o.stat(state.QuarantineDir, name))
	}
	return nil
}

// stat returns the size of a file; one that cannot be opened is noted.
func (o *Queue) stat(name ...string) StoredFile {
	file := StoredFile{Name: name[len(name)-1]}
	f, err := o.fsys.Open(o.path(name...))
	if err == nil {
		defer f.Close()
		file.Size, err = f.Size()
	}
	if err != nil {
		o.sizeErrs = append(o.sizeErrs, fileError{filepath.Join(name...), err})
	}
	return file
}

// firstWanted is the seq of the first record that some sink has not done;
// ok is false without sinks.
func (o *Queue) firstWanted() (seq uint64, ok bool) {
	seq = math.MaxUint64
	for _, a := range o.found.Accounts {
		seq = min(seq, a.Next)
	}
	return seq, len(o.found.Accounts) > 0
}

// lostIn returns how many of the records in r are known to be lost.
func (o *Queue) lostIn(r segment.SeqRange) (n uint64) {
	if !o.found.HasCheckpoint {
		return 0
	}
	for _, l := range o.found.Checkpoint.Lost {
		if from, to := max(l.From, r.From), min(l.To, r.To); from < to {
			n += to - from
		}
	}
	return n
}

// isKnownLost reports whether all records in r are known to be lost.
func (o *Queue) isKnownLost(r segment.SeqRange) bool { return o.lostIn(r) == r.Size() }
