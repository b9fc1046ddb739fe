// Package inspect reads a queue on which no exporter runs: check, cat, and the replay of
// records. Its verdict on the log comes from segment.Scan, which Open of the queue uses, too.
package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	// Damage is a loss or an unusable file that nobody has handled yet.
	Damage Severity = "damage"
	// Known is damage that is handled: its segment moves to quarantine, and its records are
	// counted as lost.
	Known Severity = "known"
	// Note is worth knowing, but no damage.
	Note Severity = "note"
)

// The kinds of findings.
const (
	damagedFrames    = "DamagedFrames"
	missingRecords   = "MissingRecords"
	lostEnd          = "LostEnd"
	tornTail         = "TornTail"
	damagedHeader    = "DamagedHeader"
	foreignSegment   = "ForeignSegment"
	missingCursors   = "MissingCursors"
	damagedCursors   = "DamagedCursors"
	damagedSlot      = "DamagedSlot"
	missingPositions = "MissingPositions"
	damagedPositions = "DamagedPositions"
	UnreadableFile   = "UnreadableFile"
	leftover         = "Leftover"
	strayFile        = "StrayFile"
	removed          = "Removed"
)

// Finding is one result of Check.
type Finding struct {
	Severity Severity
	Kind     string
	File     string // "" when there is no file to name
	// Offset and End are the bytes it is about; both are 0 for a file as a
	// whole.
	Offset, End int64
	Lost        segment.SeqRange // the records that are lost; empty when none are
	Text        string           // what it means
}

// Place is the file and, when it matters, the offset.
func (f Finding) Place() string {
	place := cmp.Or(f.File, "log")
	if f.End > f.Offset || f.Offset > 0 {
		place = fmt.Sprintf("%s:%d", place, f.Offset)
	}
	return place
}

// String is the finding in one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s", f.Place(), f.Severity, f.Text)
}

// Checked is what Check has read.
type Checked struct {
	Segments int
	Records  uint64
	Bytes    int64 // of segments, up to the last frame
}

// Check reads everything and calls found for each finding, in the order of the
// log. It fails when found fails, when ctx is done, and when the directory cannot
// be read. Damage is no error.
func (o *Queue) Check(ctx context.Context, found func(Finding) error) (Checked, error) {
	c := check{o: o, found: found}
	for _, f := range o.surveyed() {
		if err := found(f); err != nil {
			return c.sum, err
		}
	}
	for _, s := range o.found.Segments {
		if s.HeaderErr != nil {
			if err := found(o.damagedHeader(s)); err != nil {
				return c.sum, err
			}
		}
	}
	w := walk{o: o, ctx: ctx, visit: c.item, unreadable: c.unreadable, gone: c.gone}
	err := w.run(0)
	return c.sum, err
}

// check turns what a walk meets into findings.
type check struct {
	o     *Queue
	found func(Finding) error
	sum   Checked
	last  *segment.Stored // the one of the last frame
	torn  *Finding        // held back until it is clear whether records are missing
}

func (c *check) item(s, before *segment.Stored, it *segment.Item) error {
	switch it.Kind {
	case segment.IsHole:
		return c.hole(s, it)
	case segment.IsGap:
		return c.gap(s, before, it)
	case segment.IsTail:
		return c.tail(s, it)
	}

	if c.last != s {
		c.last = s
		c.sum.Segments++
	}
	c.sum.Records += uint64(it.Frame.Count)
	c.sum.Bytes += int64(it.Frame.Size())
	return nil
}

func (c *check) hole(s *segment.Stored, h *segment.Item) error {
	f := Finding{
		Severity: Damage, Kind: damagedFrames, File: s.String(), Offset: h.From, End: h.To, Lost: h.Lost,
		Text: fmt.Sprintf("%s cannot be read (%v): %s", bytesText(h.To-h.From), h.Cause, c.o.lossText(h.Lost)),
	}
	if h.From == h.To {
		f.Text = fmt.Sprintf("the file ends at %d, its frames at %d: %s", s.Size, s.NamedEnd, c.o.lossText(h.Lost))
		if s.Size >= s.NamedEnd {
			f.Text = fmt.Sprintf("%v: %s", h.Cause, c.o.lossText(h.Lost))
		}
	}
	return c.lossFound(f, f.Offset == f.End || slices.Contains(c.o.found.Checkpoint.Damaged, s.Epoch))
}

// lossFound reports f, which is known when what is lost is counted, and noted says that the
// next start knows of the damage.
func (c *check) lossFound(f Finding, noted bool) error {
	if noted && c.o.isKnownLost(f.Lost) {
		f.Severity = Known
		f.Text += "; already counted"
	}
	return c.found(f)
}

func (c *check) gap(s, after *segment.Stored, it *segment.Item) error {
	r := it.Lost
	f := Finding{Severity: Damage, Kind: missingRecords, Lost: r}
	switch {
	case it.AtEnd:
		return c.lostEnd(r, s)
	case after == nil:
		f.File = s.String()
		f.Text = "records before this segment are missing: "
	default:
		f.File = after.String()
		f.Text = fmt.Sprintf("records between this segment and %s are missing: ", s)
	}
	f.Text += c.o.lossText(r)
	if wanted, ok := c.o.firstWanted(); ok && wanted >= r.To && !c.o.isKnownLost(r) {
		// Segments that are done with are removed, and after a crash some of
		// them can be there again.
		f.Severity = Note
		f.Text = fmt.Sprintf("%s %s no longer kept: every sink has passed %s", r, isAre(r), itThem(r))
		return c.found(f)
	}
	return c.lossFound(f, true)
}

// lostEnd reports records that were there once, for a cursor or a checkpoint
// knows of them, and with which the log ought to end.
func (c *check) lostEnd(r segment.SeqRange, last *segment.Stored) error {
	f := Finding{Severity: Damage, Kind: lostEnd, File: state.CursorsFile, Lost: r}
	if c.o.found.Checkpoint.NextSeq == r.To {
		f.File = state.PositionsFile
	}
	f.Text = fmt.Sprintf("it knows of records up to %d, the log ends with %d: %s", r.To-1, r.From-1, c.o.lossText(r))
	if last == nil {
		f.Text = fmt.Sprintf("it knows of records up to %d, and there is no segment: %s", r.To-1, c.o.lossText(r))
	}
	if c.torn != nil {
		f.Text += fmt.Sprintf("; %s at %s cannot be read", bytesText(c.torn.End-c.torn.Offset), c.torn.Place())
		f.File, f.Offset, f.End = c.torn.File, c.torn.Offset, c.torn.End
		c.torn = nil
	}
	return c.lossFound(f, true)
}

// tail reports what a crash has left at the end of the log. That is no damage:
// no producer was told that it is safe, and the next start passes over it.
func (c *check) tail(s *segment.Stored, h *segment.Item) error {
	if h.To == h.From {
		return nil
	}
	f := Finding{
		Severity: Note, Kind: tornTail, File: s.String(), Offset: h.From, End: h.To,
		Text: fmt.Sprintf("torn tail of %s: a crash interrupted a write that was not acknowledged; the next start skips it", bytesText(h.To-h.From)),
	}
	if h.Lost.From < c.o.found.KnownDurable {
		c.torn = &f // what stood here was durable once
		return nil
	}
	return c.found(f)
}

// gone reports records that docket has removed since it has begun meanwhile.
func (c *check) gone(r segment.SeqRange) error {
	return c.found(Finding{Severity: Note, Kind: removed, Lost: r, Text: r.String() + " were removed before they were read: they are no longer kept"})
}

func (c *check) unreadable(s *segment.Stored, off int64, err error) error {
	text := fmt.Sprintf("cannot be read (%v): %s from %d on", err, "its records", s.FirstSeq)
	if !s.IsLast() {
		text = fmt.Sprintf("cannot be read (%v): %s", err, segment.SeqRange{From: s.FirstSeq, To: s.Until})
	}
	return c.found(Finding{
		Severity: Damage, Kind: UnreadableFile, File: s.String(), Offset: off,
		Text: text + " may be lost, or only unreachable: docket changes nothing here",
	})
}

// surveyed are the findings about files other than segments, and about whose the
// segments are.
func (o *Queue) surveyed() []Finding {
	var all []Finding
	for _, s := range o.found.Foreign {
		all = append(all, Finding{
			Severity: Damage, Kind: foreignSegment, File: s.String(),
			Text: fmt.Sprintf("it belongs to queue %s, this is queue %s: the next start moves it to %s/, and delivers none of its records", s.Header.Queue, o.found.Queue, state.QuarantineDir),
		})
	}
	all = append(all, o.checkCursors()...)
	all = append(all, o.checkPositions()...)
	for _, e := range o.sizeErrs {
		all = append(all, Finding{
			Severity: Damage, Kind: UnreadableFile, File: e.name, Text: fmt.Sprintf("cannot be read (%v)", e.err),
		})
	}
	for _, name := range o.found.Leftovers {
		all = append(all, Finding{
			Severity: Note, Kind: leftover, File: name,
			Text: "unfinished when docket ended: it is harmless, and the next start removes it",
		})
	}
	for _, name := range o.found.Strays {
		all = append(all, Finding{Severity: Note, Kind: strayFile, File: name, Text: "not a file of a queue: docket leaves it alone"})
	}
	return all
}

func (o *Queue) damagedHeader(s *segment.Stored) Finding {
	f := Finding{
		Severity: Damage, Kind: damagedHeader, File: s.String(), End: min(segment.HeaderSize, s.Size),
		Text: "segment header damaged: docket still reads its frames",
	}
	if slices.Contains(o.found.Checkpoint.Damaged, s.Epoch) {
		f.Severity = Known
	}
	return f
}

// lossText says what the loss of r means.
func (o *Queue) lossText(r segment.SeqRange) string {
	if r.Size() == 0 {
		return "no record is lost"
	}
	var waiting []string
	for _, name := range slices.Sorted(maps.Keys(o.found.Accounts)) {
		if o.found.Accounts[name].Next < r.To {
			waiting = append(waiting, name)
		}
	}
	text := fmt.Sprintf("%s %s lost", r, isAre(r))
	switch {
	case len(o.found.Accounts) == 0:
		return text
	case len(waiting) == 0:
		return text + " to a replay only, every sink has passed " + itThem(r)
	}
	return text + " to " + strings.Join(waiting, ", ")
}

func isAre(r segment.SeqRange) string {
	if r.Size() == 1 {
		return "is"
	}
	return "are"
}

func itThem(r segment.SeqRange) string {
	if r.Size() == 1 {
		return "it"
	}
	return "them"
}

func bytesText(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}
