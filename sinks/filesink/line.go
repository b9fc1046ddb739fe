package filesink

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/docket-export/docket/internal/lineage"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// line is what the export has of one line of records: see "Lines" in the package comment.
type line struct {
	id      string
	last    uint64 // the last seq that it has, as a record or in a gap
	lineage sinks.Lineage
	through uint64 // up to here its records are those of the queue that is looked for
}

// isWhole reports whether the queue that is looked for has all of the line.
func (l *line) isWhole() bool { return l.through == l.last }

// lineOf returns the line of the export that has most of a queue; nil: none has any of it.
func (s *store) lineOf(queue sinks.Lineage) (best *line, err error) {
	now := &line{id: s.position.queue.String(), last: s.position.last, lineage: s.position.lineage}
	consider := func(l *line) {
		known := false
		if l.through, known = queue.Through(l.lineage, l.last+1); !known || l.last == 0 {
			return
		}
		if best == nil || l.through > best.through || l.through == best.through && l.isWhole() {
			best = l
		}
	}
	if consider(now); best != nil && best.isWhole() {
		return best, nil
	}
	lines, err := s.lines()
	for id, l := range lines {
		if id != now.id {
			consider(l)
		}
	}
	return best, err
}

// lines are those that the manifest tells of.
func (s *store) lines() (map[string]*line, error) {
	lines := map[string]*line{}
	err := s.eachLine(0, func(m *manifest.Line) {
		if m.Entry == nil {
			return
		}
		l := lines[m.Entry.Queue]
		if l == nil {
			l = &line{id: m.Entry.Queue}
			lines[l.id] = l
		}
		l.last, l.lineage = m.Entry.LastSeq, lineage.Join(l.lineage, m.Entry.Lineage())
	})
	return lines, err
}

// turnTo has the export go on with the records of queue behind those that line l has of it; nil: it
// has none. Those up to done do not come again, and the next one is upTo at most. An active file of another line is finished first, and so
// is one that has records of more incarnations than the position can name.
func (s *sink) turnTo(queue sinks.Queue, l *line, done, upTo uint64) error {
	through := uint64(0)
	if l != nil {
		through = l.through
	}
	next := s.store.position
	next.lineage = queue.Lineage.Before(max(upTo, through+1) + 1).Newest(sinks.KeptIncarnations)
	goesOn := l != nil && l.isWhole() && l.id == next.queue.String()
	if goesOn && slices.Equal(next.lineage, s.store.position.lineage) {
		return nil
	}
	if next.size > 0 && (!goesOn || len(next.lineage) > 0 && next.first < next.lineage[0].First) {
		if err := s.finish(); err != nil {
			return err
		}
		known := next.lineage
		next = s.store.position
		next.lineage = known
	}
	if goesOn {
		return s.store.replacePosition(next, s.store.gaps)
	}
	next = next.withoutFile()
	id, err := s.store.newLine(queue.ID, l)
	if err != nil {
		return err
	}
	if l != nil && !l.isWhole() { // what has parted from l begins behind what has been delivered
		through = max(through, done)
	}
	next.queue, next.last, next.file = id, through, file{}
	return s.store.replacePosition(next, manifest.Gaps{})
}

// newLine returns the id of the line that goes on behind l: that of l, as long as it has nothing
// else. A line that is new to the export has the id of the queue, and later ones are random.
func (s *store) newLine(queue string, l *line) (uuid.UUID, error) {
	if l != nil && l.isWhole() {
		return uuid.Parse(l.id)
	}
	lines, err := s.lines()
	if err != nil {
		return uuid.UUID{}, err
	}
	if lines[queue] != nil || s.position.queue.String() == queue && s.position.last > 0 {
		return uuid.New(), nil
	}
	id, err := uuid.Parse(queue)
	if err != nil {
		return id, fmt.Errorf("queue id %q: %w", queue, err)
	}
	return id, nil
}
