package verify

import (
	"fmt"
	"slices"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// checkEnd checks what belongs to no line, once all of them have been read.
func (v *verifier) checkEnd() error {
	v.checkSigned()
	if v.Last != nil {
		v.checkLast(v.Last)
	}
	if err := v.checkCheckpoints(); err != nil {
		return err
	}
	for _, name := range v.tree.aside {
		v.note("%s was set aside by the sink when its position was damaged: it is not part of the export", name)
	}
	if n := v.lines.Torn(); n > 0 {
		v.note("the manifest ends with %d bytes of an unfinished line: docket is writing it, or the power failed", n)
	}
	for name, listed := range v.tree.files {
		if *listed && v.alive[name] == nil && !v.isMissing(name) {
			v.note("%s is still there, though the manifest says that it was removed", name)
		}
	}
	slices.Sort(v.report.Notes)
	return nil
}

func (v *verifier) note(format string, args ...any) {
	v.report.Notes = append(v.report.Notes, fmt.Sprintf(format, args...))
}

func (v *verifier) checkSigned() {
	if v.PublicKeys == nil || v.report.Signed {
		return
	}
	b := &Break{Kind: SignatureMissing, Line: v.report.Lines, Expected: "a signature", Found: "none: no line is signed"}
	if v.report.Lines == 0 {
		if v.isYoung() {
			v.note("no line is signed: the first file is not finished, or somebody has emptied the export")
			return
		}
		b.File, b.Expected, b.Found = manifest.FileName, "a signed line", "no line"
	}
	v.broken(b)
}

// isYoung reports whether the first file of the export may be the one that is being written.
func (v *verifier) isYoung() bool { return v.report.Lines == 0 && v.report.Active != nil }

// resolveLast makes the anchor one of a line of records when it is the id of a record that an
// incarnation of e stored: e tells which line that is.
func (v *verifier) resolveLast(e *manifest.Entry) {
	if a := v.Last; a != nil && a.Line == nil && e.FirstSeq <= a.Seq && a.Seq <= e.LastSeq && e.Incarnations.At(a.Seq) == a.Queue {
		v.Last = &Anchor{Queue: e.Queue, Seq: a.Seq}
	}
}

// checkLast wants what was known of the export before.
func (v *verifier) checkLast(a *Anchor) {
	if a.Line != nil {
		if !v.hasMet(FromLast) {
			v.broken(&Break{Kind: LastMissing, Expected: "a line with the hash " + a.Line.String(), Found: fmt.Sprintf("none of %d lines", v.report.Lines)})
		}
		return
	}
	b := &Break{Kind: LastMissing, Queue: a.Queue, FirstSeq: a.Seq, LastSeq: a.Seq, Expected: fmt.Sprintf("record %s-%d", a.Queue, a.Seq)}
	q, known := v.queues[a.Queue]
	switch {
	case known && a.Seq < v.report.Queues[q].FirstSeq:
		b.Found = fmt.Sprintf("the export begins with seq %d of this queue", v.report.Queues[q].FirstSeq)
	case known && a.Seq <= v.report.Queues[q].LastSeq:
		v.met(Met{Kind: FromLast, Place: Place{a.Queue, a.Seq}})
		return
	case v.report.Active != nil:
		v.note("record %s-%d comes after the last finished file, so it is no anchor yet: docket has not finished the file, or somebody has removed it", a.Queue, a.Seq)
		return
	case known:
		b.Found = fmt.Sprintf("the export ends with seq %d of this queue", v.report.Queues[q].LastSeq)
	default:
		b.Found = "no record of this queue"
	}
	v.broken(b)
}
