package runs

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/gatekeepersource/inventory"
)

// read sends a file, and for a run its record. It returns when all of that is durable. A
// *fileError says that the file could not be read; any other error that nothing can be
// sent any more.
func (r *Reader) read(ctx context.Context, f inventory.File) error {
	if f.IsGap {
		return r.readGap(ctx, f)
	}
	content, closeFile, err := r.files.Content(f)
	if err != nil {
		return &fileError{err}
	}
	defer closeFile()
	// The size it had when it was claimed: it is the same at every reading.
	lines := io.NewSectionReader(content, 0, f.Size)
	if f.IsRun {
		return r.readRun(ctx, f, lines)
	}
	return r.readSegment(ctx, f, lines)
}

// readRenamed reads a file under whose name the queue has the lines of somebody else.
// Those are told of, and the file is sent under another name.
func (r *Reader) readRenamed(ctx context.Context, f inventory.File, conflict *feed.Conflict) error {
	r.Failures.Set("name/"+f.ID, fmt.Sprintf("%s: %v", f.Path(), conflict))
	if err := conflict.Tell(ctx, r.in, r.Env.Name); err != nil {
		return err
	}
	r.renamed[f.ID] = true
	return r.read(ctx, f)
}

// readGap says that a file vanished.
func (r *Reader) readGap(ctx context.Context, f inventory.File) error {
	out, err := r.openOutbox(ctx, f, f.Channel, f.Stem, "gap")
	if err != nil {
		return err
	}
	defer out.feed.Close()
	gap := gapOf(f)
	if err := r.addRecord(out, gap); err != nil {
		return err
	}
	if err := out.finish(ctx); err != nil {
		return err
	}
	if run, ok := gap.(decision.Run); ok {
		r.Audits.Add(run)
	}
	return nil
}

func (r *Reader) addRecord(out *outbox, record any) error {
	text, err := encode(record, r.Env.MaxRecordBytes)
	if err != nil {
		return &fileError{fmt.Errorf("encode the record about the file: %w", err)}
	}
	return out.add(text)
}

// place is what makes the producer of a file: the same at each reading, and another for
// a file that was there before under the same name, or that has grown.
func place(f inventory.File) []string {
	return []string{f.Channel, f.Stem, strconv.FormatUint(f.Inode, 10), strconv.FormatInt(f.Size, 10)}
}

// readSegment sends the records of a segment.
func (r *Reader) readSegment(ctx context.Context, f inventory.File, lines io.Reader) error {
	out, err := r.openOutbox(ctx, f, place(f)...)
	if err != nil {
		return err
	}
	defer out.feed.Close()
	if err := eachLine(lines, r.Env.MaxRecordBytes, out.addLine); err != nil {
		return err
	}
	return out.finish(ctx)
}

// readRun sends the records of a run, and its run record.
func (r *Reader) readRun(ctx context.Context, f inventory.File, lines io.Reader) error {
	rd, err := r.beginRun(ctx, f)
	if err != nil {
		return err
	}
	defer rd.out.feed.Close()
	if err := eachLine(lines, r.Env.MaxRecordBytes, rd.line); err != nil {
		return err
	}
	if err := rd.end(); err != nil {
		return err
	}
	if err := rd.out.finish(ctx); err != nil {
		return err
	}
	return rd.commit()
}

// runReading is one run on its way.
type runReading struct {
	r      *Reader
	file   inventory.File
	tally  *tally
	out    *outbox
	delta  *deltaRun // nil: every violation is sent
	result decision.Run
}

func (r *Reader) beginRun(ctx context.Context, f inventory.File) (*runReading, error) {
	rd := &runReading{r: r, file: f, tally: newTally(inventory.RunID(f.Stem), r.Env.Redaction)}
	producer := place(f)
	if r.Delta {
		changes, err := r.channelChanges(f.Channel)
		if err != nil {
			return nil, &fileError{err}
		}
		rd.delta = changes.begin(rd.tally.id)
		producer = append(producer, "delta", strconv.Itoa(r.files.Channel(f.Channel).DeltaLost))
	}
	var err error
	if rd.out, err = r.openOutbox(ctx, f, producer...); err != nil {
		return nil, err
	}
	rd.out.varies = rd.delta != nil
	return rd, nil
}

func (rd *runReading) line(l line) error {
	if l.torn() && rd.file.IsAbandoned {
		rd.tally.tear(max(l.length, int64(len(l.text))))
		return nil
	}
	isViolation := false
	if l.length > 0 {
		rd.tally.tooLong()
	} else {
		isViolation = rd.tally.add(l.text)
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
	f := rd.file
	reason := rd.tally.reason(f.IsAbandoned)
	rd.result = rd.tally.record(reason, f.Path(), rd.r.files.Channel(f.Channel).Previous)
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
	rd.r.files.SetChannel(rd.file.Channel, func(st *inventory.Channel) {
		st.HasDelta = rd.delta != nil
		if result.Complete {
			st.Previous = &result.Violations
		}
	})
	rd.r.Audits.Add(result)
	rd.r.logRun(rd.file.Channel, result)
	return nil
}

// logRun logs a run that is not proven complete, once for each reason in a row.
func (r *Reader) logRun(channel string, run decision.Run) {
	before := r.reasons[channel]
	r.reasons[channel] = string(run.Reason)
	switch {
	case before == string(run.Reason):
	case !run.Complete:
		r.Env.Log.Warn("an audit is not proven to be complete", "channel", channel, "run", run.ID, "reason", run.Reason, "detail", run.Detail)
	case before != "":
		r.Env.Log.Info("audits are complete again", "channel", channel, "run", run.ID)
	}
}

// gapRecord says that a segment was lost; a run has a decision.Run for that.
type gapRecord struct {
	EventType string             `json:"eventType"`
	File      string             `json:"file"`
	Reason    decision.RunReason `json:"reason"`
}

// gapOf is the record of a file that vanished.
func gapOf(f inventory.File) any {
	if f.IsRun {
		return decision.Run{
			EventType: decision.AuditRun, ID: inventory.RunID(f.Stem), Reason: decision.Vanished, File: f.Path(),
			Detail: "the file was deleted before it could be read",
		}
	}
	return gapRecord{EventType: decision.ExportGap, File: f.Path(), Reason: decision.Vanished}
}
