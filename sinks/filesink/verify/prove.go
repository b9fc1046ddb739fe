package verify

import (
	"fmt"
	"slices"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// proven returns the files with the records that the anchors vouch for. The manifest is read
// once more, for the gaps, which were too many to keep: its chain has to end as before, so that
// these are the lines that were proven.
func (v *verifier) proven() (*Contents, error) {
	p := proof{contents: &Contents{root: v.root}, anchors: v.report.Anchors}
	var number uint64
	var head manifest.Hash
	for line, err := range v.again() {
		if err != nil {
			return nil, err
		}
		if line.Previous != head {
			return nil, fmt.Errorf("%s %w", manifest.FileName, ErrChanged)
		}
		number, head = number+1, line.Hash
		if line.Entry == nil {
			continue
		}
		if f := v.alive[line.Entry.Name]; f != nil && f.line == number {
			p.add(line.Entry, number, f.sums)
		}
		p.pass(line.Entry)
	}
	if head != v.report.Head {
		return nil, fmt.Errorf("%s %w", manifest.FileName, ErrChanged)
	}
	if v.report.Active != nil && v.report.Active.Checked && p.add(v.position.Active, 0, v.activeSums) {
		p.contents.Files[len(p.contents.Files)-1].isActive = true
		p.contents.active, v.active = v.active, nil
	}
	return p.contents, nil
}

// proof collects what anchors vouch for.
type proof struct {
	contents *Contents
	anchors  []Met
	passed   bool // the record whose id is an anchor
}

// pass notes that the lines behind that of e come next.
func (p *proof) pass(e *manifest.Entry) {
	for _, m := range p.anchors {
		p.passed = p.passed || m.isID() && m.Queue == e.Queue && m.Seq <= e.LastSeq
	}
}

// isID reports whether m is the id of a record.
func (m Met) isID() bool { return m.Kind == FromLast && m.Line == 0 }

// add adds the records of a file that anchors vouch for, and reports whether there are any.
// line is that of the manifest, 0 for the unfinished file.
func (p *proof) add(e *manifest.Entry, line uint64, sums []manifest.Hash) bool {
	lines := seqLines(e, p.vouched(e, line))
	if len(lines) == 0 {
		return false
	}
	if lines[0] == (Lines{0, e.Records}) {
		lines = nil
	}
	p.contents.Files = append(p.contents.Files, File{
		Name: e.Name, Bytes: e.Bytes, FirstTime: e.FirstTime, LastTime: e.LastTime, Lines: lines, isProven: true, sums: sums,
	})
	return true
}

// seqs are those from from up to to.
type seqs struct{ from, to uint64 }

// vouched returns the seqs of a file that the anchors vouch for. An id and a line vouch for all
// that comes before them, a reference for the records that were compared.
func (p *proof) vouched(e *manifest.Entry, line uint64) (list []seqs) {
	for _, m := range p.anchors {
		switch {
		case m.Kind == FromReference && m.Queue == e.Queue:
			list = append(list, seqs{m.From, m.Seq})
		case m.Kind == FromReference, line == 0:
		case m.isID() && !p.passed && m.Queue == e.Queue:
			list = append(list, seqs{0, m.Seq})
		case m.isID() && !p.passed, line <= m.Line:
			list = append(list, seqs{0, e.LastSeq})
		}
	}
	return list
}

// seqLines returns the lines of a file with the records of these seqs.
func seqLines(e *manifest.Entry, vouched []seqs) (lines []Lines) {
	for _, s := range vouched {
		if s.from <= e.FirstSeq && e.LastSeq <= s.to {
			return []Lines{{0, e.Records}}
		}
	}
	line := uint64(0)
	for seq := e.FirstSeq; seq <= e.LastSeq; seq = e.Gaps.Next(seq + 1) {
		if slices.ContainsFunc(vouched, func(s seqs) bool { return s.from <= seq && seq <= s.to }) {
			if last := len(lines) - 1; last >= 0 && lines[last].To == line {
				lines[last].To++
			} else {
				lines = append(lines, Lines{line, line + 1})
			}
		}
		line++
	}
	return lines
}
