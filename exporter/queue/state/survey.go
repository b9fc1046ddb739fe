package state

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fileversion"
	"github.com/docket-export/docket/internal/lineage"
)

// Survey is what the file names in a queue's directory, the headers of its segments and
// its other files say. It trusts nothing without a checksum. What cannot be read or
// used is in it as an error. Open and the tools for a queue at rest use it.
type Survey struct {
	// Queue is the queue that most files belong to; Nil when none says so.
	Queue uuid.UUID
	// Segments are those of this queue, in order and linked; Foreign those of another.
	Segments, Foreign []*segment.Stored

	Begun     []string // files of segments that were being begun
	Number    int      // the highest in a name of theirs
	Leftovers []string // all that was begun and not finished: they mean nothing
	Strays    []string // files that no queue makes

	Cursors    *CursorFile        // nil when CursorsErr is set
	Accounts   map[string]Account // empty then
	CursorsErr error              // missing, unreadable, ErrCursors or ErrOtherQueue

	Checkpoint    Checkpoint
	HasCheckpoint bool
	Known         int   // producers that are remembered
	CheckpointErr error // unreadable, ErrPositions or ErrOtherQueue

	// Lineage are the incarnations of the queue.
	Lineage lineage.Lineage

	// KnownDurable is a seq: every record below it was durable once, because a sink has
	// passed it or a checkpoint was made beyond it.
	KnownDurable uint64
}

// ErrOtherQueue says that a file is whole and belongs to a queue that is not this
// one.
var ErrOtherQueue = errors.New("it belongs to queue")

// Look surveys the queue in dir and changes nothing. It fails only when dir cannot be
// listed. The caller closes Cursors.
func Look(fsys disk.FS, dir string) (*Survey, error) {
	s, err := List(fsys, dir)
	if err != nil {
		return nil, err
	}
	for _, found := range s.Segments {
		readSegmentHeader(fsys, dir, found)
	}
	s.Cursors, s.Accounts, s.CursorsErr = OpenCursorFile(fsys, dir)
	s.Checkpoint, s.HasCheckpoint, s.CheckpointErr = readCheckpoint(fsys, dir)
	s.identify()
	s.Known = len(s.Checkpoint.Producers)
	segment.Link(s.Segments)
	s.trace()
	s.KnownDurable = s.Checkpoint.NextSeq
	for _, a := range s.Accounts {
		s.KnownDurable = max(s.KnownDurable, a.Next, a.ReplayTo)
	}
	return s, nil
}

// List is Look at the names alone.
func List(fsys disk.FS, dir string) (*Survey, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	s := &Survey{}
	for _, name := range names {
		s.add(name)
	}
	return s, nil
}

// add sorts a name of the directory.
func (s *Survey) add(name string) {
	if n, ok := segment.ParseName(name); ok {
		s.Segments = append(s.Segments, &segment.Stored{Name: n})
		return
	}
	begun, isBegun := parseNumbered(name, BeginPrefix, disk.NewSuffix)
	s.Number = max(s.Number, begun)
	if isBegun {
		s.Begun = append(s.Begun, name)
	}
	switch {
	case slices.Contains([]string{CursorsFile, PositionsFile, LockFile, ReserveFile, ConfigFile}, name):
	case strings.HasSuffix(name, disk.NewSuffix):
		s.Leftovers = append(s.Leftovers, name)
	default:
		s.Strays = append(s.Strays, name)
	}
}

func readSegmentHeader(fsys disk.FS, dir string, s *segment.Stored) {
	f, err := fsys.Open(filepath.Join(dir, s.String()))
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
	s.ReadHeader(f, dir, size)
}

// identify finds out whose the files are, and takes those of another queue from this one.
// A segment without a whole header is taken for one of this queue: its name says what the
// header said, and the frames of a foreign one have other epochs and seqs.
func (s *Survey) identify() {
	slices.SortFunc(s.Segments, func(a, b *segment.Stored) int { return a.Compare(b.Name) })
	var ids []uuid.UUID
	for _, found := range s.Segments {
		if found.HeaderErr == nil && found.OpenErr == nil {
			ids = append(ids, found.Header.Queue)
		}
	}
	if s.HasCheckpoint {
		ids = append(ids, s.Checkpoint.Queue)
	}
	if s.Cursors != nil {
		ids = append(ids, s.Cursors.Queue)
	}
	s.Queue = ownerOf(ids)
	all := s.Segments
	s.Segments = nil
	for _, found := range all {
		if id := found.Header.Queue; id != uuid.Nil && id != s.Queue {
			s.Foreign = append(s.Foreign, found)
		} else {
			s.Segments = append(s.Segments, found)
		}
	}
	if s.HasCheckpoint && s.Checkpoint.Queue != s.Queue {
		s.CheckpointErr = fmt.Errorf("%w %s", ErrOtherQueue, s.Checkpoint.Queue)
		s.Checkpoint, s.HasCheckpoint = Checkpoint{}, false
	}
	if s.Cursors != nil && s.Cursors.Queue != s.Queue {
		s.CursorsErr = fmt.Errorf("%w %s", ErrOtherQueue, s.Cursors.Queue)
		s.Cursors.File.Close()
		s.Cursors = nil
	}
	if s.Cursors == nil {
		s.Accounts = map[string]Account{}
	}
}

// trace finds out which incarnations stored the records: the checkpoint has those of removed
// segments. Where neither the checkpoint nor a header says it, records get an id of their own,
// since that of another incarnation may be given to other records elsewhere.
func (s *Survey) trace() {
	known, first := s.Checkpoint.Lineage, lineage.Lineage(nil)
	for _, found := range s.Segments {
		id := found.Header.Incarnation
		switch {
		case found.OpenErr != nil || found.HeaderErr != nil && s.HasCheckpoint && found.Epoch <= s.Checkpoint.Epoch:
			continue
		case found.HeaderErr != nil:
			id = uuid.NewSHA1(s.Queue, []byte(found.String()))
		}
		first = append(first, lineage.Incarnation{ID: id.String(), First: found.FirstSeq})
	}
	s.Lineage = lineage.Join(known, first)
}

// ownerOf returns the queue that most of a directory's files belong to, the first
// of several; the segments come first. So one file of another queue never makes
// this one give up its records.
func ownerOf(ids []uuid.UUID) (owner uuid.UUID) {
	votes := map[uuid.UUID]int{}
	for _, id := range ids {
		votes[id]++
	}
	for _, id := range ids {
		if votes[id] > votes[owner] {
			owner = id
		}
	}
	return owner
}

// UnknownVersion returns the *fileversion.Error that a file was met with, or nil: nothing
// may be said of a queue, or done to it, without all of its files.
func (s *Survey) UnknownVersion() error {
	errs := []error{s.CursorsErr, s.CheckpointErr}
	for _, found := range slices.Concat(s.Segments, s.Foreign) {
		errs = append(errs, found.OpenErr)
	}
	for _, err := range errs {
		if unknown, ok := errors.AsType[*fileversion.Error](err); ok {
			return unknown
		}
	}
	return nil
}
