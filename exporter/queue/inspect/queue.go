package inspect

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fileversion"
)

// ErrNoQueue says that a directory holds no queue, or does not exist.
var ErrNoQueue = errors.New("there is none")

// Queue is a queue that no exporter works on, held so that none can begin to.
// Contents, Read, Check and PlanReplay only look: they create and change no
// file. Repair and Replay change it. For one goroutine.
type Queue struct {
	Dir  string
	fsys disk.FS
	// lock is nil where the directory has no lock file, and so nobody works on
	// it: to look at a queue makes no file.
	lock io.Closer

	survey
}

// survey is what the names in the directory and the files other than segments
// say. It trusts nothing that has no checksum, and what it cannot read or use
// stands in it as an error, not as a reason to fail.
type survey struct {
	id        uuid.UUID
	cursorsID uuid.UUID // that of the cursors file, Nil when it cannot be read
	// segments are those of this queue, in order; foreign those of another.
	segments, foreign []*segment.Stored

	accounts   map[string]state.Account // empty when cursorsErr is set
	cursorsErr error                    // of the cursors file: missing, unreadable, errCursors or errOtherQueue
	badSlot    int                      // slot of the cursors file that is damaged beside a whole one, -1 for none

	checkpoint    state.Checkpoint
	hasCheckpoint bool
	checkpointErr error

	spares     []StoredFile
	spareErr   error        // of a spare: its version is not known
	leftovers  []string     // begun and not finished: they mean nothing
	strays     []string     // files that no queue makes
	quarantine []StoredFile // what was set aside
	sizeErrs   []fileError

	// knownDurable is a seq: every record below it was durable once, because a
	// sink has passed it or a checkpoint was made beyond it.
	knownDurable uint64
}

type fileError struct {
	name string
	err  error
}

// StoredFile is a file in the queue's directory.
type StoredFile struct {
	Name string
	Size int64
}

// Open takes hold of the queue in dir until Close. It fails with
// *InUseError while an exporter works on it, and with ErrNoQueue when there is
// none. Damage is no reason to fail. fsys may be nil for the operating system's.
func Open(dir string, fsys disk.FS) (*Queue, error) {
	if fsys == nil {
		fsys = disk.OS(dir)
	}
	o := &Queue{Dir: dir, fsys: fsys}
	names, err := fsys.List(dir)
	if state.NotExist(err) {
		return nil, fmt.Errorf("queue %s: %w: no such directory", dir, ErrNoQueue)
	}
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", dir, err)
	}
	if !slices.ContainsFunc(names, isQueueFile) {
		return nil, fmt.Errorf("queue %s: %w: the directory holds neither segments nor cursors", dir, ErrNoQueue)
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

// isQueueFile reports whether name is that of a file that only a queue has.
func isQueueFile(name string) bool {
	_, isSegment := segment.ParseName(name)
	return isSegment || name == state.CursorsFile || name == state.PositionsFile
}

// acquire makes sure that nobody else works on the queue.
func (o *Queue) acquire() (err error) {
	if o.lock == nil {
		o.lock, err = state.Lock(o.fsys, o.Dir)
	}
	return err
}

// Close lets go of the queue.
func (o *Queue) Close() error {
	if o.lock == nil {
		return nil
	}
	err := o.lock.Close()
	o.lock = nil
	return err
}

// ID is the UUID of the queue, or the zero UUID when no file says it.
func (o *Queue) ID() string { return o.id.String() }

func (o *Queue) path(name ...string) string {
	return filepath.Join(append([]string{o.Dir}, name...)...)
}

// look makes the survey.
func (o *Queue) look() error {
	o.survey = survey{accounts: map[string]state.Account{}, badSlot: -1}
	names, err := o.fsys.List(o.Dir)
	if err != nil {
		return fmt.Errorf("queue %s: list: %w", o.Dir, err)
	}
	slices.Sort(names)
	var found []*segment.Stored
	for _, name := range names {
		if s, ok := segment.ParseName(name); ok {
			found = append(found, segment.NewStored(s))
			continue
		}
		_, isSpare := state.ParseSpareName(name)
		switch {
		case slices.Contains([]string{state.CursorsFile, state.PositionsFile, state.LockFile, state.ReserveFile}, name):
		case isSpare:
			o.spares = append(o.spares, o.stat(name))
			o.lookAtSpare(name)
		case strings.HasSuffix(name, state.NewSuffix):
			o.leftovers = append(o.leftovers, name)
		default:
			o.strays = append(o.strays, name)
		}
	}
	o.lookAtCursors()
	o.checkpoint, o.hasCheckpoint, o.checkpointErr = state.ReadCheckpoint(o.fsys, o.Dir)
	o.lookAtSegments(found)
	if err := o.unknownVersion(); err != nil {
		return fmt.Errorf("queue %s: %w", o.Dir, err)
	}
	o.lookAtDurable()
	return o.lookAtQuarantine()
}

// unknownVersion returns the *fileversion.Error that a file was met with: nothing may be
// said of a queue, or done to it, without all of its files.
func (o *Queue) unknownVersion() error {
	errs := []error{o.cursorsErr, o.checkpointErr, o.spareErr}
	for _, s := range slices.Concat(o.segments, o.foreign) {
		errs = append(errs, s.OpenErr)
	}
	for _, err := range errs {
		if unknown, ok := errors.AsType[*fileversion.Error](err); ok {
			return unknown
		}
	}
	return nil
}

// lookAtSpare finds out whether a newer docket has made a spare.
func (o *Queue) lookAtSpare(name string) {
	f, err := o.fsys.Open(o.path(name))
	if err != nil {
		return // which stat has noted
	}
	defer f.Close()
	if _, err := segment.SpareEpoch(f, o.path(name)); errors.As(err, new(*fileversion.Error)) {
		o.spareErr = err
	}
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

// lookAtCursors reads both slots of the cursors file.
func (o *Queue) lookAtCursors() {
	content := make([]byte, 2*state.SlotSize)
	if o.cursorsErr = o.readStart(state.CursorsFile, content); o.cursorsErr != nil {
		return
	}
	var newest uint64
	var whole [2]bool
	for i := range whole {
		if o.cursorsErr = state.CheckSlotVersion(state.SlotOf(content, i), o.path(state.CursorsFile)); o.cursorsErr != nil {
			return
		}
		id, generation, accounts, ok := state.DecodeSlot(state.SlotOf(content, i))
		if whole[i] = ok; ok && generation > newest {
			o.cursorsID, newest, o.accounts = id, generation, accounts
		}
	}
	for i := range whole {
		if !whole[i] && !isZero(state.SlotOf(content, i)) { // one that was never written is zero
			o.badSlot = i
		}
	}
	if !whole[0] && !whole[1] {
		o.cursorsErr, o.badSlot = state.ErrCursors, -1
	}
}

// readStart reads the first bytes of a file into b, or as many as there are.
func (o *Queue) readStart(name string, b []byte) error {
	f, err := o.fsys.Open(o.path(name))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := state.ReadFull(f, b, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func isZero(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 })
}

// lookAtSegments finds out whose the segments are and where each ends, as
// recovery does.
func (o *Queue) lookAtSegments(found []*segment.Stored) {
	slices.SortFunc(found, func(a, b *segment.Stored) int { return a.Compare(b.Name) })
	var ids []uuid.UUID
	for _, s := range found {
		o.readHeader(s)
		if s.IsNamed() {
			ids = append(ids, s.Header.Queue)
		}
	}
	if o.hasCheckpoint {
		ids = append(ids, o.checkpoint.Queue)
	}
	if o.cursorsID != uuid.Nil {
		ids = append(ids, o.cursorsID)
	}
	o.id = state.OwnerOf(ids)
	for _, s := range found {
		if s.IsNamed() && s.Header.Queue != o.id {
			o.foreign = append(o.foreign, s)
			continue
		}
		o.segments = append(o.segments, s)
	}
	if o.hasCheckpoint && o.checkpoint.Queue != o.id {
		o.checkpointErr = fmt.Errorf("%w %s", state.ErrOtherQueue, o.checkpoint.Queue)
		o.checkpoint, o.hasCheckpoint = state.Checkpoint{}, false
	}
	if o.cursorsID != uuid.Nil && o.cursorsID != o.id {
		o.cursorsErr = fmt.Errorf("%w %s", state.ErrOtherQueue, o.cursorsID)
		o.accounts, o.badSlot = nil, -1
	}
	segment.Link(o.segments)
}

func (o *Queue) readHeader(s *segment.Stored) {
	f, err := o.fsys.Open(o.path(s.String()))
	if err != nil {
		s.OpenErr = err
		return
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		s.OpenErr = err
		return
	}
	s.ReadHeader(f, o.Dir, size)
}

func (o *Queue) lookAtDurable() {
	o.knownDurable = o.checkpoint.NextSeq
	for _, a := range o.accounts {
		o.knownDurable = max(o.knownDurable, a.Next, a.ReplayTo)
	}
}

func (o *Queue) lookAtQuarantine() error {
	names, err := o.fsys.List(o.path(state.QuarantineDir))
	if err != nil && !state.NotExist(err) {
		return fmt.Errorf("queue %s: list %s: %w", o.Dir, state.QuarantineDir, err)
	}
	slices.Sort(names)
	for _, name := range names {
		o.quarantine = append(o.quarantine, o.stat(state.QuarantineDir, name))
	}
	return nil
}

// isCopied reports whether quarantine has the bytes from..to of a file. A copy
// is named after the file and its offsets, and may hold more than was asked for.
func (o *Queue) isCopied(file string, from, to int64) bool {
	return from >= to || slices.ContainsFunc(o.quarantine, func(q StoredFile) bool {
		first, last, ok := copiedRange(q.Name, file)
		return ok && first <= from && to <= last
	})
}

// copiedRange returns the offsets in the name of a copy that was made of file.
func copiedRange(name, file string) (from, to int64, ok bool) {
	offsets, ok1 := strings.CutPrefix(name, file+".")
	first, last, ok2 := strings.Cut(offsets, "-")
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	return from, to, ok1 && ok2 && err1 == nil && err2 == nil
}

// firstWanted is the seq of the first record that some sink has not done;
// ok is false without sinks.
func (o *Queue) firstWanted() (seq uint64, ok bool) {
	seq = math.MaxUint64
	for _, a := range o.accounts {
		seq = min(seq, a.Next)
	}
	return seq, len(o.accounts) > 0
}

// lostIn returns how many of the records in r are known to be lost.
func (o *Queue) lostIn(r segment.SeqRange) (n uint64) {
	if !o.hasCheckpoint {
		return 0
	}
	for _, l := range o.checkpoint.Lost {
		if from, to := max(l.From, r.From), min(l.To, r.To); from < to {
			n += to - from
		}
	}
	return n
}

// isKnownLost reports whether all records in r are known to be lost.
func (o *Queue) isKnownLost(r segment.SeqRange) bool { return o.lostIn(r) == r.Size() }
