package tailsource

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/statefile"
)

// batch is what a decoder has chosen, in order.
type batch struct {
	records []byte // each ended by "\n"
	lines   int
	large   []oversize
	runs    []ran
	framed  bool // there was a runtime's framing, in a format that has none
}

// oversize is a record over the limit.
type oversize struct {
	bytes, lines int // of the records before it
	prefix       []byte
	length       int64
}

// ran is a run record, by its place in the batch.
type ran struct {
	nth int // counting records over the limit
	*decision.Run
}

func (b *batch) add(record []byte) {
	b.records = append(append(b.records, record...), '\n')
	b.lines++
}

func (b *batch) addTooLarge(prefix []byte, length int64) {
	b.large = append(b.large, oversize{len(b.records), b.lines, bytes.Clone(prefix), length})
}

func (b *batch) addRun(rec *decision.Run) {
	b.add(encode(rec))
	b.runs = append(b.runs, ran{b.count(), rec})
}

// count is how many numbers the batch takes.
func (b *batch) count() int { return b.lines + len(b.large) }

func (b *batch) clear() {
	if b.records = b.records[:0]; cap(b.records) > 4*readBytes {
		b.records = nil
	}
	b.lines, b.large, b.runs = 0, nil, nil
}

// flush sends what was decoded. r.err is not nil if it was not, all of it.
func (r *reading) flush(ctx context.Context) {
	r.hint()
	if r.err != nil || r.batch.count() == 0 {
		return
	}
	if r.err = r.open(ctx); r.err != nil {
		return
	}
	from, sent := 0, 0
	for _, o := range append(r.batch.large, oversize{bytes: len(r.batch.records), lines: r.batch.lines}) {
		if r.err = r.feed.Send(ctx, r.batch.records[from:o.bytes], o.lines-sent); r.err != nil {
			return
		}
		if from, sent = o.bytes, o.lines; o.length > 0 {
			if r.err = r.feed.SendTooLarge(ctx, o.prefix, o.length); r.err != nil {
				return
			}
		}
	}
	r.reportRuns()
	r.contents.Number += uint64(r.batch.count())
	r.batch.clear()
}

// hint points out a format that does not fit.
func (r *reading) hint() {
	if r.batch.framed && !r.hinted {
		r.hinted = true
		r.env.Log.Warn("the file has lines that a container runtime has framed, which format json passes over: format cri takes them", "path", r.config.Path)
	}
}

// reportRuns counts the runs whose violations are not all in the log, if their records
// are new.
func (r *reading) reportRuns() {
	for _, run := range r.batch.runs {
		missing := run.Reason == decision.LinesLost || run.Reason == decision.Damaged
		if missing && r.contents.Number+uint64(run.nth) > r.acked {
			r.report.gap("the log does not show what an audit has counted", "audit", run.ID, "reason", run.Reason, "detail", run.Detail)
		}
	}
}

// open makes the feed. The name of its producer is durable before a record is sent
// under it: so no other contents will ever have that name.
func (r *reading) open(ctx context.Context) (err error) {
	if r.feed != nil {
		return nil
	}
	r.name()
	head := windowOf(r.head)
	if a := r.state.active(); r.unsaved || a == nil || a.Generation != r.contents.Generation || a.Head != head {
		begin := r.contents
		begin.Offset, begin.Number, begin.Tail = 0, 0, window{}
		switch {
		case a != nil && a.Generation == r.contents.Generation:
			begin = *a // what is carried over is as of there
		case r.known != nil:
			begin = *r.known
			begin.Done = false
		}
		begin.Generation, begin.Producer, begin.Head = r.contents.Generation, r.contents.Producer, head
		if !r.write(ctx, r.state.with(begin)) {
			return context.Cause(ctx)
		}
		r.pending, r.dirty = nil, true
	}
	r.feed, r.acked, err = feed.Open(ctx, r.in, r.env.Name, r.contents.Producer, r.contents.Number+1)
	if err == nil && r.named && r.acked > 0 {
		return r.rename(ctx)
	}
	return err
}

// rename gives the contents another name: their name is new, nothing was ever sent under
// it, and yet the queue has lines.
func (r *reading) rename(ctx context.Context) error {
	r.feed.Close()
	r.feed = nil
	conflict := &feed.Conflict{Producer: r.contents.Producer, Acked: r.acked}
	r.report.set(theName, conflict.Error())
	if err := conflict.Tell(ctx, r.in, r.env.Name); err != nil {
		return err
	}
	r.contents.Generation = 0
	return r.open(ctx)
}

// name gives the contents a name among the producers.
func (r *reading) name() {
	if r.contents.Generation > 0 {
		return
	}
	r.contents.Generation, r.named = r.state.Generations+1, true
	first, _, _ := bytes.Cut(r.head, []byte("\n"))
	r.contents.Producer = feed.Producer(r.env.Name, string(r.config.Format),
		fmt.Sprintf("%d.%d", r.contents.Generation, r.contents.Inode), windowOf(first).Sum)
}

// save writes the position, at most once every saveEvery, when the records before it
// are durable.
func (r *reading) save() {
	if r.pending == nil && r.dirty && time.Since(r.saved) >= saveEvery {
		r.pending, r.through, r.dirty = r.snapshot(), r.contents.Number, false
	}
	if r.pending == nil || time.Since(r.saved) < saveEvery || r.feed != nil && r.feed.Settled() < r.through {
		return
	}
	if r.saveNow(r.pending) == nil {
		r.pending = nil
	}
}

// snapshot is the state as of what was decoded.
func (r *reading) snapshot() *state {
	r.name()
	c := r.contents
	c.Head, c.Tail = windowOf(r.head), windowOf(r.mark)
	s := r.state.with(c)
	s.Seen, s.Carry = r.follow.seenOf(r.g), r.decoder.toKeep()
	return s
}

// saveNow writes a state. Its failure is reported.
func (r *reader) saveNow(s *state) error {
	r.saved = time.Now()
	err := statefile.Save(statePath(r.env.StateDir), s)
	if err != nil {
		r.report.set(theState, fmt.Sprintf("the position in the log file cannot be saved, see that its disk takes more: %v", err))
		return err
	}
	r.report.set(theState, "")
	r.state, r.unsaved = s, false
	return nil
}

// write saves a state, however long that takes; false: ctx is done.
func (r *reading) write(ctx context.Context, s *state) bool {
	for r.saveNow(s) != nil {
		select {
		case <-time.After(saveEvery):
		case <-ctx.Done():
			return false
		}
	}
	return true
}
