package state

import (
	"maps"
	"slices"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
)

// State is what the frames of the log add up to: what each source brought, and where
// each producer is. It is always derived from the log: a checkpoint holds the sum up to
// a sealed segment, and Open adds the frames since. So an ack, a position and a count
// become durable in one write.
type State struct {
	totals
	Producers *producers
}

// totals are the counts of a state.
type totals struct {
	Sources map[string]*SourceTally `json:"sources"`
	// Lost are the seqs that damage has taken, in order and not overlapping.
	Lost []segment.SeqRange `json:"lost"`
}

// SourceTally counts the decided lines of one source since the queue began.
type SourceTally struct {
	// Received is how many lines were read, by Chunk.Lines: Stored, Duplicate and
	// Refused, unless a line was lost between reading it and deciding its fate. The
	// checkpoint keeps Received, frames do not: after a crash, frames since the
	// checkpoint count the lines that they have decided.
	Received  uint64            `json:"received"`
	Stored    uint64            `json:"stored"`
	Duplicate uint64            `json:"duplicate"`
	Refused   map[string]uint64 `json:"refused"` // by reason
	// Lost are records that the source's producers say they have lost, by kind;
	// each at most MaxLost.
	Lost map[string]uint64 `json:"lost"`
}

// New returns an empty state that remembers so many producers of each source and
// identity; 0: DefaultProducers. It is for reading the log, until Producers.Resume.
func New(limit int) *State {
	return &State{totals: totals{Sources: map[string]*SourceTally{}}, Producers: newProducers(limit)}
}

// Restore takes over what a checkpoint says, which may have been made with another limit
// of producers.
func (s *State) Restore(c *Checkpoint) {
	s.totals = c.clone()
	s.Producers.restore(c.Producers)
}

// Checkpoint returns what s adds up to now. Producers that were silent for a day are
// forgotten.
func (s *State) Checkpoint(now time.Time) *Checkpoint {
	s.Producers.forget(now)
	return &Checkpoint{Written: now.UnixNano(), totals: s.clone(), Producers: s.Producers.stored(now)}
}

// newSourceTally returns a tally of nothing.
func newSourceTally() *SourceTally {
	return &SourceTally{Refused: map[string]uint64{}, Lost: map[string]uint64{}}
}

// Add counts one durable frame; lines is how many lines were read for it.
func (s *State) Add(f *segment.Frame, lines uint64) {
	if len(f.Producer) > 0 {
		s.Producers.add(f)
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
			t.Lost[string(kind)] = min(t.Lost[string(kind)]+min(n, segment.MaxLost), segment.MaxLost)
		})
}

// AddLost records that damage has taken r, and reports whether that is new.
// Cursors from different positions meet the same damage as overlapping ranges:
// these are kept as one.
func (s *totals) AddLost(r segment.SeqRange) bool {
	before := s.Corrupt()
	from := slices.IndexFunc(s.Lost, func(l segment.SeqRange) bool { return r.From <= l.To })
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
	return s.Corrupt() > before
}

// Stored is how many records the sources have brought.
func (s *totals) Stored() (n uint64) {
	for _, t := range s.Sources {
		n += t.Stored
	}
	return n
}

// Corrupt is how many records damage has taken.
func (s *totals) Corrupt() uint64 {
	var n uint64
	for _, r := range s.Lost {
		n += r.Size()
	}
	return n
}

// clone returns a copy that shares nothing.
func (s *totals) clone() totals {
	c := totals{Sources: make(map[string]*SourceTally, len(s.Sources)), Lost: slices.Clone(s.Lost)}
	for name, t := range s.Sources {
		copied := t.Clone()
		c.Sources[name] = &copied
	}
	return c
}

// Clone returns a copy that shares nothing.
func (t *SourceTally) Clone() SourceTally {
	c := *t
	c.Refused, c.Lost = maps.Clone(t.Refused), maps.Clone(t.Lost)
	return c
}
