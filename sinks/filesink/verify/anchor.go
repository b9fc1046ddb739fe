package verify

import (
	"fmt"
	"slices"
	"time"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// Verdict says what a Run has proven.
type Verdict string

// The verdicts. Only the first says that nothing is missing up to an end that the
// directory does not name itself.
const (
	Proven     Verdict = "Proven"     // whole up to an anchor from outside the directory
	Unanchored Verdict = "Unanchored" // whole as far as it goes: where it has to end, nobody has said
	Broken     Verdict = "Broken"     // something is missing or changed: Report.Break
)

// Verdict is what r proves.
func (r *Report) Verdict() Verdict {
	switch {
	case r.Break != nil:
		return Broken
	case len(r.Anchors) > 0 && len(r.Doubts) == 0:
		return Proven
	}
	return Unanchored
}

// Place is a record: the place up to which something holds.
type Place struct {
	Queue string
	Seq   uint64 // 0: there is none
}

// Anchor is what was known of an export at an earlier time and is kept elsewhere: a
// record, or the hash of a line of the manifest.
type Anchor struct {
	Queue string // with Seq: the record must be accounted for, as exported or in a gap
	Seq   uint64
	Line  *manifest.Hash
}

// AnchorKind says where an anchor was from.
type AnchorKind string

// The kinds of anchors.
const (
	FromLast       AnchorKind = "Last"       // Options.Last
	FromCheckpoint AnchorKind = "Checkpoint" // the newest of Options.Checkpoints
	FromReference  AnchorKind = "Reference"  // the last record that Options.Reference has as well
)

// Met is an anchor that the export agrees with. It is whole up to Place.
type Met struct {
	Kind AnchorKind
	Place
	Line uint64    // of the manifest, from 1; 0: the anchor names none
	Time time.Time // of a checkpoint
}

// Proven is the furthest place that an anchor vouches for; none where the verdict is
// another. Anything behind it may have been taken away or written anew.
func (r *Report) Proven() (p Place) {
	if r.Verdict() != Proven {
		return Place{}
	}
	for _, m := range r.Anchors {
		if p.Seq == 0 || r.isBehind(m.Place, p) {
			p = m.Place
		}
	}
	return p
}

// isBehind reports whether the export comes to a later than to b. A queue that no line
// of the manifest names is that of the unfinished file.
func (r *Report) isBehind(a, b Place) bool {
	if a.Queue == b.Queue {
		return a.Seq > b.Seq
	}
	order := func(id string) int {
		at := slices.IndexFunc(r.Queues, func(q Queue) bool { return q.ID == id })
		if at < 0 {
			return len(r.Queues)
		}
		return at
	}
	return order(a.Queue) > order(b.Queue)
}

// reached looks whether the line that was taken last is one that an anchor names.
func (v *verifier) reached(hash manifest.Hash, number uint64) {
	if number == 1 {
		v.expectCheckpoints(hash)
	}
	if v.Last != nil && v.Last.Line != nil && *v.Last.Line == hash {
		v.met(Met{Kind: FromLast, Place: v.end, Line: number})
	}
	v.meetCheckpoints(hash, number)
}

// doubt says why an anchor that was met proves nothing.
func (v *verifier) doubt(format string, args ...any) {
	v.report.Doubts = append(v.report.Doubts, fmt.Sprintf(format, args...))
}

func (v *verifier) met(m Met) { v.report.Anchors = append(v.report.Anchors, m) }

// hasMet reports whether an anchor of this kind was met.
func (v *verifier) hasMet(kind AnchorKind) bool {
	return slices.ContainsFunc(v.report.Anchors, func(m Met) bool { return m.Kind == kind })
}
