package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// Checkpoint is what docket has reported about the end of an export, in a record that
// went to every sink. So a copy lies where somebody who can write to the export cannot
// write.
type Checkpoint struct {
	Sink   string        // that writes the export
	Export manifest.Hash // of the first line of the manifest
	Line   manifest.Hash // of the newest line
	Place                // the last record that the line, and those before it, account for
	Time   time.Time
	From   string // where the copy was read, for a person
}

// checkpoints are those of the export that is being read.
type checkpoints struct {
	waiting map[manifest.Hash][]Checkpoint // by the line that they name; not met yet
	sinks   []string                       // of all checkpoints of this export
	others  []Checkpoint                   // of other exports: the newest of each sink
	newest  *Met
}

// expectCheckpoints takes those of the export whose first line has this hash. Copies of
// one record count once.
func (v *verifier) expectCheckpoints(export manifest.Hash) {
	c := &v.checkpoints
	c.waiting = map[manifest.Hash][]Checkpoint{}
	for _, one := range v.Checkpoints {
		if v.Sink != "" && one.Sink != v.Sink {
			continue
		}
		if one.Export != export {
			c.expectElsewhere(one)
			continue
		}
		if !slices.Contains(c.sinks, one.Sink) {
			c.sinks = append(c.sinks, one.Sink)
		}
		c.expect(one)
	}
}

// expectElsewhere notes a checkpoint of another export.
func (c *checkpoints) expectElsewhere(one Checkpoint) {
	at := slices.IndexFunc(c.others, func(o Checkpoint) bool { return o.Sink == one.Sink })
	switch {
	case at < 0:
		c.others = append(c.others, one)
	case one.Time.After(c.others[at].Time):
		c.others[at] = one
	}
}

func (c *checkpoints) expect(one Checkpoint) {
	list := c.waiting[one.Line]
	for i := range list {
		if list[i].Place == one.Place && list[i].Sink == one.Sink {
			if one.Time.After(list[i].Time) {
				list[i] = one
			}
			return
		}
	}
	c.waiting[one.Line] = append(list, one)
}

// meetCheckpoints compares the checkpoints that name the line that was taken last with
// what the export has up to there.
func (v *verifier) meetCheckpoints(line manifest.Hash, number uint64) {
	c := &v.checkpoints
	for _, one := range c.waiting[line] {
		if one.Place != v.end {
			v.broken(&Break{
				Kind: CheckpointDiffers, Line: number, Queue: one.Queue, FirstSeq: one.Seq, LastSeq: one.Seq,
				Expected: one.text(), Found: fmt.Sprintf("a line up to which the export ends with record %d of queue %s", v.end.Seq, v.end.Queue),
			})
		}
		c.newest = &Met{Kind: FromCheckpoint, Place: one.Place, Line: number, Time: one.Time}
		clear(v.removals) // the lines up to this one are vouched for
	}
	delete(c.waiting, line)
}

// checkCheckpoints wants that all checkpoints of the export were met.
func (v *verifier) checkCheckpoints() error {
	c := &v.checkpoints
	if v.Checkpoints == nil {
		return nil
	}
	if v.report.Lines == 0 {
		v.checkpointsOfNothing()
		return nil
	}
	if len(c.sinks) > 1 {
		return fmt.Errorf("%w: of sinks %s", ErrWhichSink, strings.Join(c.sinks, ", "))
	}
	if one, missing := c.oldestWaiting(); missing {
		v.broken(&Break{
			Kind: CheckpointMissing, Queue: one.Queue, FirstSeq: one.Seq, LastSeq: one.Seq,
			Expected: one.text(), Found: fmt.Sprintf("no such line: the manifest has %s, the last with the hash %s", countText(v.report.Lines, "line"), v.report.Head),
		})
		return nil
	}
	if c.newest != nil {
		v.met(*c.newest)
	}
	switch {
	case len(c.others) > 0:
		v.doubt("there are %s", c.othersText(v.Sink))
	case c.newest == nil:
		v.note("no checkpoint of this export was given")
	}
	return nil
}

// othersText says what checkpoints of other exports mean. A producer can forge a checkpoint
// of a rewritten export, for any sink and queue. It cannot remove the genuine checkpoint of
// the original export, which is then among the others.
func (c *checkpoints) othersText(sink string) string {
	newest := slices.MaxFunc(c.others, func(a, b Checkpoint) int { return a.Time.Compare(b.Time) })
	text := fmt.Sprintf("checkpoints of another export, the newest by sink %s at %s (%s)", newest.Sink, newest.Time.Format(time.RFC3339), newest.From)
	isForeign := func(o Checkpoint) bool { return !slices.Contains(c.sinks, o.Sink) }
	if sink == "" && len(c.sinks)+len(c.others) > 1 && slices.ContainsFunc(c.others, isForeign) {
		return text + ": name the sink that writes here with --sink"
	}
	return fmt.Sprintf("%s: if that sink writes here, the export was started over. If you intended this, use only checkpoints since then. "+
		"If another docket has that sink, use only checkpoints of this docket's queue: the newest is of queue %s", text, newest.Queue)
}

// oldestWaiting is the first checkpoint that was not met.
func (c *checkpoints) oldestWaiting() (oldest Checkpoint, found bool) {
	for _, list := range c.waiting {
		for _, one := range list {
			if !found || one.Time.Before(oldest.Time) {
				oldest, found = one, true
			}
		}
	}
	return oldest, found
}

// checkpointsOfNothing judges an export without a line: it cannot be told whose
// checkpoints were given. An export whose first file is not finished has none yet.
func (v *verifier) checkpointsOfNothing() {
	given := slices.DeleteFunc(slices.Clone(v.Checkpoints), func(c Checkpoint) bool { return v.Sink != "" && c.Sink != v.Sink })
	switch {
	case len(given) == 0:
		v.note("no checkpoint was given")
	case v.isYoung():
		v.note("no line of a manifest, so no checkpoint was compared: the first file is not finished, or somebody has emptied the export")
	default:
		one := given[len(given)-1]
		v.broken(&Break{
			Kind: CheckpointMissing, Queue: one.Queue, FirstSeq: one.Seq, LastSeq: one.Seq,
			Expected: one.text(), Found: "no line of a manifest, and no file",
		})
	}
}

func (c *Checkpoint) text() string {
	return fmt.Sprintf("line %s, with which the export ends with record %d of queue %s, as the checkpoint of %s says (%s)",
		c.Line, c.Seq, c.Queue, c.Time.Format(time.RFC3339), c.From)
}
