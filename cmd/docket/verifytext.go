package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// writeVerdict shows r as text for a person: the verdict, then what it is about.
func writeVerdict(w io.Writer, c *verifyCommand, r verify.Report) error {
	var b strings.Builder
	if r.Break != nil {
		breakText(&b, c, r)
	} else {
		b.WriteString(soundText(c.dir, r))
	}
	field := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	if r.Break != nil {
		b.WriteString("\nread and in order so far:\n")
	}
	field("manifest", "%s, %s", countText(r.Lines, "line"), signedText(r))
	field("files", "%s with %s, %s", countText(r.Files, "file"), countText(r.Records, "record"), sizeText(r.Bytes))
	if r.RemovedFiles > 0 {
		field("removed", "%s with %s, by retention", countText(r.RemovedFiles, "file"), countText(r.RemovedRecords, "record"))
	}
	for _, q := range r.Queues {
		field("queue", "%s: %d to %d", q.ID, q.FirstSeq, q.LastSeq)
	}
	field("gaps", "%s", gapsText(r.Gaps))
	if a := r.Active; a != nil {
		field("active", "%s", activeText(a))
	}
	if c.reference != nil && r.Break == nil {
		field("compared", "with %s: %s", oneLine(c.reference.name), comparedText(r.Compared))
	}
	if r.Lines > 0 && r.Break == nil {
		field("last line", "%s, keep it for --last", r.Head)
	}
	for _, note := range r.Notes {
		field("note", "%s", oneLine(note))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func soundText(dir string, r verify.Report) string {
	if r.Lines == 0 {
		return fmt.Sprintf("OK: no file of %s is finished yet, so there is nothing to prove\n", dir)
	}
	return fmt.Sprintf("OK: the export %s is complete and unchanged\n", dir)
}

func breakText(b *strings.Builder, c *verifyCommand, r verify.Report) {
	k := r.Break
	fmt.Fprintf(b, "BREAK in the export %s: %s\n", c.dir, k.Kind)
	field := func(name, text string) { fmt.Fprintf(b, "  %-9s %s\n", name, oneLine(text)) }
	if k.File != "" {
		field("file", k.File)
	}
	if k.Line > 0 {
		field("manifest", fmt.Sprintf("line %d", k.Line))
	}
	if k.Record > 0 {
		field("line", fmt.Sprintf("%d of the file", k.Record))
	}
	if k.FirstSeq > 0 {
		field("records", rangeText(k.FirstSeq, k.LastSeq)+" of queue "+k.Queue)
	}
	field("expected", k.Expected)
	field("found", k.Found)
	field("meaning", k.Meaning())
	if c.reference != nil && c.reference.hint != "" && k.Kind == verify.RecordMissing {
		field("or", c.reference.hint)
	}
}

func rangeText(from, to uint64) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d to %d", from, to)
}

func signedText(r verify.Report) string {
	switch {
	case r.SignedFrom == 0:
		return "not signed"
	case !r.Signed:
		return "signed, which was not checked: give the key with --public-key"
	case r.SignedFrom > 1:
		return fmt.Sprintf("signed from line %d on, which covers those before as well", r.SignedFrom)
	}
	return "signed"
}

func gapsText(gaps map[sinks.GapReason]uint64) string {
	if len(gaps) == 0 {
		return "none"
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(gaps)) {
		parts = append(parts, fmt.Sprintf("%s %d", reason, gaps[reason]))
	}
	return strings.Join(parts, ", ")
}

func activeText(a *verify.Active) string {
	if !a.Checked {
		return fmt.Sprintf("%s with %s, not yet proven", oneLine(a.File), sizeText(a.Bytes))
	}
	return fmt.Sprintf("%s with %s (%d to %d), not yet proven: as the sink's position says, which is not signed",
		oneLine(a.File), countText(a.Records, "record"), a.FirstSeq, a.LastSeq)
}

func comparedText(c verify.Compared) string {
	text := countText(c.Same, "record") + " the same"
	for _, part := range []struct {
		n    uint64
		text string
	}{
		{c.InGaps, "in gaps"}, {c.Removed, "removed by retention"}, {c.Earlier, "from before the export"}, {c.NotYet, "not yet exported"},
	} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.text)
		}
	}
	return text
}

// verifyJSON is the form of verify -o json.
type verifyJSON struct {
	Directory string        `json:"directory"`
	OK        bool          `json:"ok"`
	Break     *breakJSON    `json:"break,omitempty"`
	Manifest  manifestJSON  `json:"manifest"`
	Files     provenJSON    `json:"files"`
	Removed   provenJSON    `json:"removed"`
	Queues    []seqsJSON    `json:"queues"`
	Gaps      gapsJSON      `json:"gaps"`
	Active    *activeJSON   `json:"active,omitempty"`
	Compared  *comparedJSON `json:"compared,omitempty"`
	Notes     []string      `json:"notes"`
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
		Directory: c.dir, OK: r.Break == nil,
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
