package gatekeepersource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources/feed"
)

// read sends a file, and for a run its record. It returns when all of that is durable. A
// *fileError says that the file could not be read; any other error that nothing can be
// sent any more.
func (r *reader) read(ctx context.Context, c *claim) error {
	if c.gap {
		return r.readGap(ctx, c)
	}
	f, closeFile, err := r.v.open(c)
	if err != nil {
		return &fileError{err: err, gone: missing(err)}
	}
	defer closeFile()
	// The size it had when it was claimed: it is the same at every reading.
	lines := newLineReader(io.NewSectionReader(f, 0, c.size), c.size, r.v.src.env.MaxRecordBytes)
	if c.name.kind.isRun() {
		return r.readRun(ctx, c, lines)
	}
	return r.readSegment(ctx, c, lines)
}

// readRenamed reads a file under whose name the queue has the lines of somebody else.
// Those are told of, and the file is sent under another name.
func (r *reader) readRenamed(ctx context.Context, c *claim, conflict *feed.Conflict) error {
	r.v.src.troubles.set("name/"+c.id, fmt.Sprintf("%s: %v", c.path(), conflict))
	if err := conflict.Tell(ctx, r.in, r.v.src.env.Name); err != nil {
		return err
	}
	c.renamed = true
	return r.read(ctx, c)
}

// readGap says that a file vanished.
func (r *reader) readGap(ctx context.Context, c *claim) error {
	out, err := r.openOutbox(ctx, c, c.channel, c.name.stem, "gap")
	if err != nil {
		return err
	}
	defer out.relay.Close()
	if err := r.addRecord(out, gapOf(c)); err != nil {
		return err
	}
	return out.settle(ctx)
}

func (r *reader) addRecord(out *outbox, record any) error {
	text, err := encode(record, r.v.src.env.MaxRecordBytes)
	if err != nil {
		return &fileError{err: fmt.Errorf("record of it: %w", err)}
	}
	return out.add(text)
}

// place is what makes the producer of a file: the same at each reading, and another for
// a file that was there before under the same name, or that has grown.
func (c *claim) place() []string {
	return []string{c.channel, c.name.stem, strconv.FormatUint(c.inode, 10), strconv.FormatInt(c.size, 10)}
}

// readSegment sends the records of a segment.
func (r *reader) readSegment(ctx context.Context, c *claim, lines *lineReader) error {
	out, err := r.openOutbox(ctx, c, c.place()...)
	if err != nil {
		return err
	}
	defer out.relay.Close()
	err = eachLine(lines, func(l line) error {
		if c.unnamed && l.torn() {
			r.v.src.env.Log.Warn("the last line of a segment was cut off: it is left out", "file", c.path(), "bytes", len(l.text))
			return nil
		}
		return out.addLine(l)
	})
	if err != nil {
		return err
	}
	return out.settle(ctx)
}

// torn reports a last line that was cut off before its end. A record may lack its "\n".
func (l line) torn() bool {
	if l.whole || l.length > 0 {
		return !l.whole
	}
	_, ok := parseRecord(l.text)
	return !ok
}

// eachLine calls take with each line that is not blank.
func eachLine(lines *lineReader, take func(line) error) error {
	for {
		l, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &fileError{err: err}
		}
		if l.length == 0 && isBlank(l.text) {
			continue
		}
		if err := take(l); err != nil {
			return err
		}
	}
}

// readRun sends the records of a run, and its run record.
func (r *reader) readRun(ctx context.Context, c *claim, lines *lineReader) error {
	rd, err := r.beginRun(ctx, c)
	if err != nil {
		return err
	}
	defer rd.out.relay.Close()
	if err := eachLine(lines, rd.line); err != nil {
		return err
	}
	if err := rd.end(); err != nil {
		return err
	}
	if err := rd.out.settle(ctx); err != nil {
		return err
	}
	return rd.commit()
}

// runReading is one run on its way.
type runReading struct {
	r      *reader
	c      *claim
	tally  *tally
	out    *outbox
	delta  *deltaRun // nil: every violation is sent
	result decision.Run
}

func (r *reader) beginRun(ctx context.Context, c *claim) (*runReading, error) {
	rd := &runReading{r: r, c: c, tally: newTally(runID(c.name.stem), r.v.src.env.Redaction)}
	producer := c.place()
	if r.v.src.config.Delta {
		changes, err := r.channelChanges(c.channel)
		if err != nil {
			return nil, &fileError{err: err}
		}
		rd.delta = changes.begin(rd.tally.id)
		producer = append(producer, "delta", strconv.Itoa(r.v.channel(c.channel).DeltaLost))
	}
	var err error
	if rd.out, err = r.openOutbox(ctx, c, producer...); err != nil {
		return nil, err
	}
	rd.out.varies = rd.delta != nil
	return rd, nil
}

func (rd *runReading) line(l line) error {
	if l.torn() && rd.c.unfinished() {
		rd.tally.tear(max(l.length, int64(len(l.text))))
		return nil
	}
	isViolation := false
	if l.length > 0 {
		rd.tally.tooLong()
	} else {
		isViolation = rd.tally.take(l.text)
	}
	if isViolation && rd.delta != nil {
		lines, err := rd.delta.observe(l.text)
		if err != nil {
			return err
		}
		return rd.out.addLines(lines)
	}
	return rd.out.addLine(l)
}

// end sends what follows from the run as a whole.
func (rd *runReading) end() error {
	c := rd.c
	reason := rd.tally.reason(c.unfinished())
	rd.result = rd.tally.record(reason, c.path(), rd.r.v.channel(c.channel).Previous)
	if rd.delta != nil {
		if err := rd.delta.end(rd.out, &rd.result); err != nil {
			return err
		}
	}
	return rd.r.addRecord(rd.out, rd.result)
}

// commit keeps what the next run is compared with.
func (rd *runReading) commit() error {
	if rd.delta != nil {
		if err := rd.delta.commit(); err != nil {
			return err
		}
	}
	result := rd.result
	rd.r.v.setChannel(rd.c.channel, func(st *channelState) {
		st.HasDelta = rd.delta != nil
		if result.Complete {
			st.Previous = &result.Violations
		}
	})
	rd.r.logRun(rd.c.channel, result)
	return nil
}

// logRun logs a run that is not proven complete, once for each reason in a row.
func (r *reader) logRun(channel string, run decision.Run) {
	before := r.reasons[channel]
	r.reasons[channel] = string(run.Reason)
	switch {
	case before == string(run.Reason):
	case !run.Complete:
		r.v.src.env.Log.Warn("an audit is not proven to be complete", "channel", channel, "run", run.ID, "reason", run.Reason, "detail", run.Detail)
	case before != "":
		r.v.src.env.Log.Info("audits are complete again", "channel", channel, "run", run.ID)
	}
}
