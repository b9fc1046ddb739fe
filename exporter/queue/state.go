package queue

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/disk"
)

// state is what the frames of the log add up to: what each source brought, and where
// each producer is. It is never written beside the log but from it: a checkpoint holds
// the sum up to a sealed segment, and Open adds the frames since. So an ack, a position
// and a count become durable in one write.
type state struct {
	totals
	producers *producers
}

// totals are the counts of a state.
type totals struct {
	Sources map[string]*SourceTally `json:"sources"`
	// Lost are the seqs that damage has taken, in order and not overlapping.
	Lost []SeqRange `json:"lost"`
}

// SourceTally counts the decided lines of one source since the queue began.
type SourceTally struct {
	// Received is how many lines were read, by Chunk.Lines: Stored, Duplicate and
	// Refused, unless a line was lost between reading it and deciding its fate. The
	// checkpoint keeps it. Frames do not: those since the checkpoint count after a
	// crash with what they have decided.
	Received  uint64            `json:"received"`
	Stored    uint64            `json:"stored"`
	Duplicate uint64            `json:"duplicate"`
	Refused   map[string]uint64 `json:"refused"` // by reason
	// Lost are records that the source's producers say they have lost, by kind;
	// each at most MaxLost.
	Lost map[string]uint64 `json:"lost"`
}

// newState returns an empty state that remembers so many producers of each source and
// identity; 0: DefaultProducers.
func newState(limit int) *state {
	return &state{totals: totals{Sources: map[string]*SourceTally{}}, producers: newProducers(limit)}
}

func newSourceTally() *SourceTally {
	return &SourceTally{Refused: map[string]uint64{}, Lost: map[string]uint64{}}
}

// add accounts for one durable frame, for which so many lines were read.
func (s *state) add(f *segment.Frame, lines uint64) {
	if len(f.Producer) > 0 {
		s.producers.add(f)
	}
	t, ok := s.Sources[string(f.Source)]
	if !ok {
		t = newSourceTally()
		s.Sources[string(f.Source)] = t
	}
	t.Received += lines
	t.Stored += uint64(f.Count)
	t.Duplicate += uint64(f.Duplicates)
	f.EachTally(
		func(reason []byte, n uint64) { t.Refused[string(reason)] += n },
		func(kind []byte, n uint64) {
			t.Lost[string(kind)] = min(t.Lost[string(kind)]+min(n, MaxLost), MaxLost)
		})
}

// addLost records that damage has taken r, and reports whether that is news.
// Cursors that come from different places meet the same damage as ranges that
// overlap: they are kept as one.
func (s *totals) addLost(r SeqRange) bool {
	before := s.corrupt()
	from := slices.IndexFunc(s.Lost, func(l SeqRange) bool { return r.From <= l.To })
	if from < 0 {
		s.Lost = append(s.Lost, r)
		return true
	}
	to := from
	for to < len(s.Lost) && s.Lost[to].From <= r.To {
		r.From, r.To = min(r.From, s.Lost[to].From), max(r.To, s.Lost[to].To)
		to++
	}
	s.Lost = slices.Replace(s.Lost, from, to, r)
	return s.corrupt() > before
}

// stored is how many records the sources have brought.
func (s *totals) stored() (n uint64) {
	for _, t := range s.Sources {
		n += t.Stored
	}
	return n
}

func (s *totals) corrupt() uint64 {
	var n uint64
	for _, r := range s.Lost {
		n += r.Size()
	}
	return n
}

func (s *totals) clone() totals {
	c := totals{Sources: make(map[string]*SourceTally, len(s.Sources)), Lost: slices.Clone(s.Lost)}
	for name, t := range s.Sources {
		copied := t.clone()
		c.Sources[name] = &copied
	}
	return c
}

// decided is how many lines have a fate.
func (t *SourceTally) decided() uint64 {
	n := t.Stored + t.Duplicate
	for _, refused := range t.Refused {
		n += refused
	}
	return n
}

func (t *SourceTally) clone() SourceTally {
	c := *t
	c.Refused, c.Lost = maps.Clone(t.Refused), maps.Clone(t.Lost)
	return c
}

// newSuffix ends the name of a file that has not got its own yet. What a crash
// leaves under it counts for nothing.
const newSuffix = ".new"

// replaceFile puts content under path durably, by way of a temporary name.
func replaceFile(fsys disk.FS, path string, content []byte) error {
	return replaceFileBy(fsys, path, func(f disk.File) error {
		_, err := f.WriteAt(content, 0)
		return err
	})
}

// replaceFileBy is replaceFile with what write writes.
func replaceFileBy(fsys disk.FS, path string, write func(disk.File) error) (err error) {
	temp := path + newSuffix
	if err := fsys.Remove(temp); err != nil && !notExist(err) {
		return err
	}
	defer func() {
		if err != nil {
			_ = fsys.Remove(temp) // half a file must not hold space that is short
		}
	}()
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(temp, path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}
