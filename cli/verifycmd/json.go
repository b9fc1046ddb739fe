package verifycmd

import (
	"time"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// verifyJSON is the form of verify -o json.
type verifyJSON struct {
	Directory string                     `json:"directory"`
	Verdict   verify.Verdict             `json:"verdict"`
	OK        bool                       `json:"ok"` // the verdict is Proven
	Anchors   []verify.Met               `json:"anchors"`
	Doubts    []string                   `json:"doubts"`          // why the anchors prove nothing
	Proven    verify.Place               `json:"proven,omitzero"` // how far the furthest anchor goes
	End       verify.Place               `json:"end,omitzero"`    // how far the export goes
	Break     *breakJSON                 `json:"break,omitempty"`
	Manifest  manifestJSON               `json:"manifest"`
	Files     provenJSON                 `json:"files"`
	Removed   provenJSON                 `json:"removed"`
	Queues    []verify.Queue             `json:"queues"`
	Gaps      map[sinks.GapReason]uint64 `json:"gaps"`
	Active    *verify.Active             `json:"active,omitempty"`
	Notes     []string                   `json:"notes"`
}

type breakJSON struct {
	*verify.Break
	Meaning string `json:"meaning"`
}

type manifestJSON struct {
	Lines        uint64    `json:"lines"`
	Head         string    `json:"head"`
	LastFinished time.Time `json:"lastFinished,omitzero"`
	SignedFrom   uint64    `json:"signedFrom"` // 0: no line is
	Signed       bool      `json:"signed"`     // and it was checked
}

type provenJSON struct {
	Files   uint64 `json:"files"`
	Records uint64 `json:"records"`
	Bytes   int64  `json:"bytes,omitempty"`
}

func verifyToJSON(c *verifyCommand, r verify.Report) verifyJSON {
	j := verifyJSON{
		Directory: c.dir, Verdict: r.Verdict(), OK: r.Verdict() == verify.Proven,
		Anchors: []verify.Met{}, Doubts: append([]string{}, r.Doubts...), End: r.End,
		Manifest: manifestJSON{Lines: r.Lines, Head: r.Head.String(), LastFinished: r.LastFinished, SignedFrom: r.SignedFrom, Signed: r.Signed},
		Files:    provenJSON{Files: r.Files, Records: r.Records, Bytes: r.Bytes},
		Removed:  provenJSON{Files: r.RemovedFiles, Records: r.RemovedRecords},
		Queues:   append([]verify.Queue{}, r.Queues...), Gaps: r.Gaps, Active: r.Active, Notes: append([]string{}, r.Notes...),
	}
	if r.Break != nil {
		j.Break = &breakJSON{r.Break, r.Break.Meaning()}
	} else {
		j.Proven, j.Anchors = r.Proven(), append(j.Anchors, r.Anchors...)
	}
	return j
}
