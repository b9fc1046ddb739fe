package tailsource

import (
	"context"
	"fmt"
	"time"

	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/statefile"
	"github.com/docket-export/docket/sources/tailsource/follow"
)

// flush sends what was decoded. r.err is not nil if it was not, all of it.
func (r *reading) flush(ctx context.Context) {
	batch := &r.decoder.Batch
	if r.err != nil || batch.Count() == 0 {
		return
	}
	if r.err = r.open(ctx); r.err != nil {
		return
	}
	r.err = batch.Send(func(text []byte, n int) error {
		return r.feed.Send(ctx, text, n)
	}, func(prefix []byte, length int64) error {
		return r.feed.SendTooLarge(ctx, prefix, length)
	})
	if r.err != nil {
		return
	}
	r.contents.Number += uint64(batch.Count())
	batch.Clear()
}

// open makes the feed. The name of its producer is durable before a record is sent
// under it: so no other contents will ever have that name.
func (r *reading) open(ctx context.Context) (err error) {
	if r.feed != nil {
		return nil
	}
	r.name()
	head := r.file.Head()
	if a := r.state.Active(); r.unsaved || a == nil || a.Generation != r.contents.Generation || a.Head != head {
		begin := r.file.Describe(r.contents)
		begin.Offset, begin.Number, begin.Tail = 0, 0, follow.Window{}
		switch {
		case a != nil && a.Generation == r.contents.Generation:
			begin = *a // what is carried over is as of there
		case r.known != nil:
			begin = *r.known
			begin.Done = false
		}
		begin.Generation, begin.Producer, begin.Head = r.contents.Generation, r.contents.Producer, head
		if !r.write(ctx, r.state.with(r.follow.History(), begin)) {
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
	r.report.Set(theName, conflict.Error())
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
	r.contents.Producer = feed.Producer(r.env.Name, string(r.config.Format),
		fmt.Sprintf("%d.%d", r.contents.Generation, r.file.Inode()), r.file.FirstLine())
}

// save writes the position, at most once every saveEvery, when the records before it
// are durable.
func (r *reading) save() {
	r.restore()
	if r.pending == nil && r.dirty && !r.holdsBack() && time.Since(r.saved) >= saveEvery {
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
	r.contents.Unrecognised = !r.decoder.Recognised()
	s := r.state.with(r.follow.History(), r.file.Describe(r.contents))
	s.Carry = r.decoder.Carry()
	return s
}

// holdsBack reports whether half of a line is in memory that no state may have, because it is
// to be redacted. The position before it stays in force: what is read again from there on is
// recognised.
func (r *reader) holdsBack() bool { return r.env.Redaction != nil && r.decoder.HasText() }

// restore writes the state again when somebody has removed it: without it a restart would
// read the file from its beginning, and store its records once more.
func (r *reader) restore() {
	if r.isGone() && time.Since(r.saved) >= saveEvery && r.saveNow(r.state) == nil {
		r.env.Log.Warn("the position in the log file was removed from the queue's directory: docket has written it again", "path", statePath(r.env.StateDir).String())
	}
}

// isGone reports whether somebody has removed the state.
func (r *reader) isGone() bool {
	there, err := statePath(r.env.StateDir).Exists()
	return err == nil && !there
}

// saveNow writes a state. Its failure is reported.
func (r *reader) saveNow(s *state) error {
	r.saved = time.Now()
	err := statefile.Save(statePath(r.env.StateDir), s)
	if err != nil {
		r.report.Set(theState, fmt.Sprintf("cannot save the position in the log file: %v: make room on the disk of queue.directory", err))
		return err
	}
	r.report.Set(theState, "")
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
