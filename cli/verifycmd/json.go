package verifycmd

import (
	"time"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// verifyJSON is the form of verify -o json.
type verifyJSON struct {
	Directory string         `json:"directory"`
	Verdict   verify.Verdict `json:"verdict"`
	OK        bool           `json:"ok"` // the verdict is Proven
	Anchors   []anchorJSON   `json:"anchors"`
	Doubts    []string       `json:"doubts"`           // why the anchors prove nothing
	Proven    *placeJSON     `json:"proven,omitempty"` // how far the furthest anchor goes
	End       *placeJSON     `json:"end,omitempty"`    // how far the export goes
	Break     *breakJSON     `json:"break,omitempty"`
	Manifest  manifestJSON   `json:"manifest"`
	Files     provenJSON     `json:"files"`
	Removed   provenJSON     `json:"removed"`
	Queues    []seqsJSON     `json:"queues"`
	Gaps      gapsJSON       `json:"gaps"`
	Active    *activeJSON    `json:"active,omitempty"`
	Compared  *comparedJSON  `json:"compared,omitempty"`
	Notes     []string       `json:"notes"`
}

type placeJSON struct {
	Queue string `json:"queue"`
	Seq   uint64 `json:"seq"`
}

// placeToJSON is nil where p is none.
func placeToJSON(p verify.Place) *placeJSON {
	if p.Seq == 0 {
		return nil
	}
	j := placeJSON(p)
	return &j
}

type anchorJSON struct {
	Kind verify.AnchorKind `json:"kind"`
	placeJSON
	From uint64     `json:"from,omitempty"` // the first record that it vouches for, where it is not all before
	Line uint64     `json:"line,omitempty"`
	Time *time.Time `json:"time,omitempty"`
}

type breakJSON struct {
	Kind     verify.Kind `json:"kind"`
	Line     uint64      `json:"line,omitempty"`
	File     string      `json:"file,omitempty"`
	Record   uint64      `json:"record,omitempty"`
	Queue    string      `json:"queue,omitempty"`
	FirstSeq uint64      `json:"firstSeq,omitempty"`
	LastSeq  uint64      `json:"lastSeq,omitempty"`
	Expected string      `json:"expected"`
	Found    string      `json:"found"`
	Meaning  string      `json:"meaning"`
}

type manifestJSON struct {
	Lines        uint64     `json:"lines"`
	Head         string     `json:"head"`
	LastFinished *time.Time `json:"lastFinished,omitempty"`
	SignedFrom   uint64     `json:"signedFrom"` // 0: no line is
	Signed       bool       `json:"signed"`     // and it was checked
}

type provenJSON struct {
	Files   uint64 `json:"files"`
	Records uint64 `json:"records"`
	Bytes   int64  `json:"bytes,omitempty"`
}

type seqsJSON struct {
	ID       string `json:"id"`
	FirstSeq uint64 `json:"firstSeq"`
	LastSeq  uint64 `json:"lastSeq"`
}

type gapsJSON map[sinks.GapReason]uint64

type activeJSON struct {
	File     string `json:"file"`
	Queue    string `json:"queue,omitempty"`
	Bytes    int64  `json:"bytes"`
	Records  uint64 `json:"records,omitempty"`
	FirstSeq uint64 `json:"firstSeq,omitempty"`
	LastSeq  uint64 `json:"lastSeq,omitempty"`
	Checked  bool   `json:"checked"`
}

type comparedJSON struct {
	Same    uint64 `json:"same"`
	InGaps  uint64 `json:"inGaps"`
	Removed uint64 `json:"removed"`
	Earlier uint64 `json:"earlier"`
	NotYet  uint64 `json:"notYet"`
}

func verifyToJSON(c *verifyCommand, r verify.Report) verifyJSON {
	j := verifyJSON{
		Directory: c.dir, Verdict: r.Verdict(), OK: r.Verdict() == verify.Proven, Anchors: []anchorJSON{}, Doubts: append([]string{}, r.Doubts...), End: placeToJSON(r.End),
		Manifest: manifestJSON{Lines: r.Lines, Head: r.Head.String(), SignedFrom: r.SignedFrom, Signed: r.Signed},
		Files:    provenJSON{Files: r.Files, Records: r.Records, Bytes: r.Bytes},
		Removed:  provenJSON{Files: r.RemovedFiles, Records: r.RemovedRecords},
		Queues:   []seqsJSON{}, Gaps: r.Gaps, Notes: append([]string{}, r.Notes...),
	}
	if !r.LastFinished.IsZero() {
		j.Manifest.LastFinished = &r.LastFinished
	}
	if b := r.Break; b != nil {
		j.Break = &breakJSON{b.Kind, b.Line, b.File, b.Record, b.Queue, b.FirstSeq, b.LastSeq, b.Expected, b.Found, b.Meaning()}
	}
	if r.Break == nil {
		j.Proven = placeToJSON(r.Proven())
		for _, m := range r.Anchors {
			a := anchorJSON{Kind: m.Kind, placeJSON: placeJSON(m.Place), From: m.From, Line: m.Line}
			if !m.Time.IsZero() {
				a.Time = &m.Time
			}
			j.Anchors = append(j.Anchors, a)
		}
	}
	for _, q := range r.Queues {
		j.Queues = append(j.Queues, seqsJSON(q))
	}
	if a := r.Active; a != nil {
		j.Active = &activeJSON{a.File, a.Queue, a.Bytes, a.Records, a.FirstSeq, a.LastSeq, a.Checked}
	}
	if c.reference != nil {
		compared := comparedJSON(r.Compared)
		j.Compared = &compared
	}
	return j
}
