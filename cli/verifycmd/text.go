package verifycmd

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/internal/human"
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
	field("manifest", "%s, %s", human.Count(r.Lines, "line"), signedText(r))
	field("files", "%s with %s, %s", human.Count(r.Files, "file"), human.Count(r.Records, "record"), human.Size(r.Bytes))
	if r.RemovedFiles > 0 {
		field("removed", "%s with %s, by retention", human.Count(r.RemovedFiles, "file"), human.Count(r.RemovedRecords, "record"))
	}
	for _, q := range r.Queues {
		field("queue", "%s: %d to %d", q.ID, q.FirstSeq, q.LastSeq)
	}
	field("gaps", "%s", gapsText(r.Gaps))
	if a := r.Active; a != nil {
		field("active", "%s", activeText(a))
	}
	if r.Break == nil {
		verdictFields(field, r)
	}
	if r.Lines > 0 && r.Break == nil {
		field("last line", "%s, keep it for --last", r.Head)
	}
	for _, note := range r.Notes {
		field("note", "%s", human.OneLine(note))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// verdictFields say what vouches for the end of the export, and what does not.
func verdictFields(field func(name, format string, args ...any), r verify.Report) {
	label := "anchor"
	if len(r.Doubts) > 0 {
		label = "agrees"
	}
	for _, m := range r.Anchors {
		field(label, "%s", anchorText(r, m))
	}
	for _, doubt := range r.Doubts {
		field("not proven", "%s", human.OneLine(doubt))
	}
	if len(r.Doubts) > 0 {
		return
	}
	if r.Verdict() == verify.Unanchored {
		field("anchor", "none: verify cannot see whether the newest files and their lines were removed together")
		field("to do", "%s", toDo)
		return
	}
	if text := unprovenText(r); text != "" {
		field("not proven", "%s", text)
	}
}

// soundText is the verdict on an export without a break.
func soundText(dir string, r verify.Report) string {
	if r.Verdict() == verify.Proven {
		p := r.Proven()
		return fmt.Sprintf("PROVEN: the export %s is whole up to record %d of queue %s\n", dir, p.Seq, p.Queue)
	}
	if r.Lines == 0 && r.Active == nil {
		return fmt.Sprintf("UNANCHORED: nothing in %s can be proven: it has no file, like a new or an emptied export\n", dir)
	}
	if r.Lines == 0 {
		return fmt.Sprintf("UNANCHORED: no file of %s is finished yet, so there is nothing to prove\n", dir)
	}
	return fmt.Sprintf("UNANCHORED: the export %s is consistent, but its end is not proven\n", dir)
}

// anchorText says what an anchor vouches for.
func anchorText(r verify.Report, m verify.Met) string {
	text := "--last"
	if m.Kind == verify.FromCheckpoint {
		text = "the checkpoint of " + m.Time.Format(time.RFC3339)
	}
	if m.Kind == verify.FromLast && m.Line == 0 && !r.Signed {
		text += " (nothing is missing; to prove that nothing was rewritten, give a hash, a checkpoint or --public-key)"
	}
	if m.Line > 0 {
		text += fmt.Sprintf(", line %d of the manifest", m.Line)
	}
	return fmt.Sprintf("%s: up to record %d of queue %s", text, m.Seq, m.Queue)
}

// unprovenText says what lies behind all anchors; empty: nothing does.
func unprovenText(r verify.Report) string {
	p, end := r.Proven(), r.End
	switch {
	case p == end:
		return ""
	case p.Queue == end.Queue && p.Seq < end.Seq:
		return fmt.Sprintf("records %s: no anchor covers them, and later records may be missing", rangeText(p.Seq+1, end.Seq))
	case p.Queue == end.Queue:
		return ""
	}
	return fmt.Sprintf("everything after that, up to record %d of queue %s: no anchor covers it, and later records may be missing", end.Seq, end.Queue)
}

const toDo = "give an anchor from outside the directory: --checkpoints with a copy of docket's checkpoint records, or --last"

func breakText(b *strings.Builder, c *verifyCommand, r verify.Report) {
	k := r.Break
	fmt.Fprintf(b, "BREAK in the export %s: %s\n", c.dir, k.Kind)
	field := func(name, text string) { fmt.Fprintf(b, "  %-9s %s\n", name, human.OneLine(text)) }
	if k.File != "" {
		field("file", k.File)
	}
	if k.Line > 0 {
		field("manifest", fmt.Sprintf("line %d", k.Line))
	}
	if k.FirstSeq > 0 {
		field("records", rangeText(k.FirstSeq, k.LastSeq)+" of queue "+k.Queue)
	}
	field("expected", k.Expected)
	field("found", k.Found)
	field("meaning", k.Meaning())
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
		return "signed, but not checked: give the key with --public-key"
	case r.SignedFrom > 1:
		return fmt.Sprintf("signed from line %d on; the signature also covers the lines before", r.SignedFrom)
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
	return fmt.Sprintf("%s with %s, not finished and not proven", human.OneLine(a.File), human.Size(a.Bytes))
}
