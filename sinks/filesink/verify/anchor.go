package verify

import (
	"fmt"
	"slices"
	"time"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// Verdict says what a Run has proven.
type Verdict string

// The verdicts. Only Proven says that nothing is missing, up to an end that is
// named outside the directory.
const (
	Proven     Verdict = "Proven"     // whole up to an anchor from outside the directory
	Unanchored Verdict = "Unanchored" // whole as far as it goes: nothing outside the directory says where it must end
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
	Queue string `json:"queue"`
	Seq   uint64 `json:"seq"` // 0: there is none
}

// IsZero reports whether p is no place.
func (p Place) IsZero() bool { return p.Seq == 0 }

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
)

// Met is an anchor that the export agrees with. The export is whole up to Place.
type Met struct {
	Kind AnchorKind `json:"kind"`
	Place
	Line uint64    `json:"line,omitempty"` // of the manifest, from 1; 0: the anchor names none
	Time time.Time `json:"time,omitzero"`  // of a checkpoint
}

// Proven is the furthest place that an anchor vouches for; zero for another verdict.
// Anything after it may have been removed or rewritten.
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

// isBehind reports whether the export comes to a later than to b.
func (r *Report) isBehind(a, b Place) bool {
	if a.Queue == b.Queue {
		return a.Seq > b.Seq
	}
	order := func(id string) int { return slices.IndexFunc(r.Queues, func(q Queue) bool { return q.ID == id }) }
	return order(a.Queue) > order(b.Queue)
}

// reached looks whether the line that was taken last is one that an anchor names.
func (v *verifier) reached(hash manifest.Hash, number uint64) {
	if number == 1 {
		v.expectCheckpoints(hash)
	}
	if v.Last != nil && v.Last.Line != nil && *v.Last.Line == hash {
		v.met(Met{Kind: FromLast, Place: v.end, Line: number})
		clear(v.removals)
	}
	v.meetCheckpoints(hash, number)
}

// checkRemovals doubts removals that nobody vouches for, of files that an anchor does:
// somebody who deletes a file can add a line that says retention did.
func (v *verifier) checkRemovals() {
	if v.report.Break != nil || v.report.Signed {
		return
	}
	var first *listed
	n := uint64(0)
	for _, f := range v.removals {
		if !slices.ContainsFunc(v.report.Anchors, func(m Met) bool { return v.report.reaches(m, f.entry) }) {
			continue
		}
		if n++; first == nil || f.line < first.line {
			first = f
		}
	}
	if n == 0 {
		return
	}
	v.doubt("%s missing, from record %d of queue %s on: the manifest says that retention removed the files, and nothing proves that: "+
		"use a newer checkpoint or hash of a line, or --public-key if lines are signed", countText(n, "file"), first.entry.FirstSeq, first.entry.Queue)
}

// reaches reports whether m vouches for a record of e.
func (r *Report) reaches(m Met, e *manifest.Entry) bool {
	return !r.isBehind(Place{e.Queue, e.FirstSeq}, m.Place)
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
