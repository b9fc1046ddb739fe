package verify

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// Record is a record as a Reference has it.
type Record struct {
	Seq uint64
	// Incarnation is the first half of the record's id, empty when it is not known.
	Incarnation string
	Source      string    // empty when it is not known
	Received    time.Time // zero when it is not known
	Data        []byte    // valid until the function that was given it returns
}

// Reference has records to compare an export with: a queue, or another export.
type Reference interface {
	// Queues are the queues whose records it has.
	Queues() []string
	// Read calls record with its records of a queue from seq from on, in order. It
	// leaves out records that it cannot read: they are no fault of the export. An
	// error of record ends Read, which returns it.
	Read(ctx context.Context, queue string, from uint64, record func(Record) error) error
	// Due is the last seq of a queue that the export must have by now, if the
	// reference has a record with it. Later records may still come.
	Due(queue string) uint64
}

// compare checks that each record of the reference is in the export, byte for byte, or
// that the manifest says why not.
func (v *verifier) compare() error {
	for _, queue := range v.Reference.Queues() {
		c := v.comparison(queue, nil)
		err := c.readOtherLines()
		if err == nil {
			err = c.run()
		}
		c.cursor.close()
		if err != nil {
			return err
		}
		if c.found != nil {
			v.broken(c.found)
			return nil
		}
		c.conclude()
	}
	if !v.hasMet(FromReference) {
		v.note("the other side has no record of this export: nothing was compared")
	}
	return nil
}

// readOtherLines notes the incarnations of the records that the export has in lines of other ids. A queue that
// was set back goes on in such a line.
func (c *comparison) readOtherLines() error {
	c.elsewhere = map[string]bool{}
	note := func(e *manifest.Entry) {
		if e != nil && e.Queue != c.queue {
			for _, one := range e.Incarnations {
				c.elsewhere[one.ID] = true
			}
		}
	}
	for line, err := range c.v.again() {
		if err != nil {
			return err
		}
		note(line.Entry)
	}
	if c.v.known {
		note(c.v.position.Active)
	}
	return nil
}

// pinpoint finds the first record in the file of b that is not that of the
// reference.
func (v *verifier) pinpoint(b *Break) error {
	if !slices.Contains(v.Reference.Queues(), b.Queue) {
		return nil
	}
	c := v.comparison(b.Queue, b)
	defer c.cursor.close()
	if err := c.run(); err != nil || c.found == nil || c.found.Kind != RecordDiffers {
		return err
	}
	b.Record, b.FirstSeq = c.found.Record, c.found.FirstSeq
	b.Expected += "; record " + fmt.Sprint(b.FirstSeq) + ": " + c.found.Expected
	b.Found += "; " + c.found.Found
	return nil
}

// comparison goes through the records of one queue.
type comparison struct {
	v      *verifier
	cursor *cursor
	queue  string
	only   *Break // only records of this file; nil: all
	counts Compared
	first  uint64 // the first seq that the export does not begin behind; 0: none
	last   uint64 // the last seq whose record is the same here and there, before left; 0: none
	left   uint64 // the first seq that the export leaves out for a reason nobody vouches for; 0: none
	behind bool   // a record behind left is in the export

	elsewhere map[string]bool // incarnations of which the export has records in other lines
	found     *Break
}

func (v *verifier) comparison(queue string, only *Break) *comparison {
	x := &export{root: v.root, lines: v.again()}
	if v.known && v.position.Queue == queue {
		x.position, x.active = &v.position, v.active
	}
	return &comparison{v: v, cursor: x.cursor(v.ctx, queue), queue: queue, only: only}
}

// errEnough ends the reading of a reference.
var errEnough = errors.New("enough")

func (c *comparison) run() error {
	from, due := uint64(1), c.v.Reference.Due(c.queue)
	if c.only != nil {
		from = c.only.FirstSeq
	}
	err := c.v.Reference.Read(c.v.ctx, c.queue, from, func(r Record) error {
		if c.only != nil && r.Seq > c.only.LastSeq {
			return errEnough
		}
		return c.record(r, due)
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if c.only == nil {
		c.v.report.Compared = c.v.report.Compared.plus(c.counts)
	}
	return nil
}

func (c Compared) plus(d Compared) Compared {
	return Compared{
		Same: c.Same + d.Same, InGaps: c.InGaps + d.InGaps, Removed: c.Removed + d.Removed,
		Earlier: c.Earlier + d.Earlier, NotYet: c.NotYet + d.NotYet,
	}
}

// record looks for one record of the reference in the export.
func (c *comparison) record(r Record, due uint64) error {
	at, err := c.cursor.find(r.Seq)
	if content, ok := errors.AsType[*contentError](err); ok {
		e := c.cursor.entry
		f := listed{entry: e, line: c.cursor.line}
		c.found = f.breakOf(WrongCount, countText(e.Records, "record"), content.Error())
		return errEnough
	}
	if err != nil {
		return err
	}
	if c.first == 0 && at.kind != isEarlier {
		c.first = r.Seq
	}
	switch at.kind {
	case isEarlier:
		c.counts.Earlier++
	case isGap:
		c.counts.InGaps++
		if c.left == 0 && !c.v.isVouchedFor(at.line) {
			c.left = r.Seq
			c.behind = at.line > 0
		}
	case isRemoved:
		c.counts.Removed++
	case isBehind:
		if c.elsewhere[r.Incarnation] {
			c.v.note("queue %s was set back: what it has stored since is in another line of the export, and was not compared with the other side", c.queue)
			return errEnough
		}
		if r.Seq <= due {
			c.found = &Break{
				Kind: RecordMissing, Queue: c.queue, FirstSeq: r.Seq, LastSeq: r.Seq,
				Expected: fmt.Sprintf("record %d, which the other side has", r.Seq),
				Found:    c.endText(),
			}
			return errEnough
		}
		c.counts.NotYet++
	case isRecord:
		if e := c.cursor.entry; e != nil && r.Incarnation != "" && len(e.Incarnations) > 0 && e.Incarnations.At(r.Seq) != r.Incarnation {
			return nil // the queue was set back, and has given the number again: it is another record
		}
		if !same(at.data, r) {
			c.found = c.differs(at, r)
			return errEnough
		}
		c.counts.Same++
		if c.left == 0 {
			c.last = r.Seq
		} else {
			c.behind = true
		}
	}
	return nil
}

// conclude says how far the export is proven by its agreement with the reference. A record
// that only the reference has needs another witness: the attacker who removed the record
// can also have written the line of the manifest that says why it is missing.
func (c *comparison) conclude() {
	v, others := c.v, "use a checkpoint or the hash of a newer line, or --public-key if lines are signed"
	isVouched := v.isVouchedFor(1)
	if c.counts.Earlier > 0 && !isVouched {
		v.doubt("%s of the other side are older than the export, and nothing proves where the export begins: %s", countText(c.counts.Earlier, "record"), others)
	}
	if c.left > 0 && c.behind && !isVouched {
		v.doubt("record %d, which the other side has, is left out, and nothing proves the reason: %s", c.left, others)
	}
	if c.last > 0 {
		v.met(Met{Kind: FromReference, Place: Place{c.queue, c.last}, From: c.first})
	}
}

func (c *comparison) endText() string {
	if end := c.v.endOf(c.queue); end > 0 {
		return fmt.Sprintf("the export ends with seq %d of this queue", end)
	}
	return "no record of this queue"
}

// differs describes two records without quoting them: they may hold secrets.
func (c *comparison) differs(at place, r Record) *Break {
	first := 0
	for first < len(at.data) && first < len(r.Data) && at.data[first] == r.Data[first] {
		first++
	}
	return &Break{
		Kind: RecordDiffers, Line: at.line, File: at.file, Record: at.record, Queue: c.queue, FirstSeq: r.Seq, LastSeq: r.Seq,
		Expected: hashText(sha256.Sum256(r.Data), int64(len(r.Data))),
		Found:    fmt.Sprintf("%s, different from byte %d on", hashText(sha256.Sum256(at.data), int64(len(at.data))), first+1),
	}
}

// again yields the lines that were taken, from the first on.
func (v *verifier) again() iter.Seq2[*manifest.Line, error] {
	if v.manifest == nil {
		return linesOf(nothing{}, 0)
	}
	return linesOf(v.manifest, v.lines.End())
}

// linesOf yields the lines of a manifest up to the offset end.
func linesOf(r io.ReaderAt, end int64) iter.Seq2[*manifest.Line, error] {
	return manifest.Read(io.NewSectionReader(r, 0, end))
}

// ignoreEOF returns any other error.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
