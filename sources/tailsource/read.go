package tailsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/tailsource/follow"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

const (
	readBytes = 256 << 10
	// severalBytes are read at a time of each of several files.
	severalBytes = 64 << 10
	// saveEvery is how often the position is written at most: each time costs a sync.
	saveEvery = time.Second
	// giveUp is how long a file that cannot be read is tried, once there are others.
	giveUp = time.Minute
	// sampleBytes are shown of a file of which nothing was recognised.
	sampleBytes = 64
	// settleCheck is how often it is asked whether what was sent is durable.
	settleCheck = 20 * time.Millisecond
	// stopWait bounds how long a stop waits for that.
	stopWait = 3 * time.Second
)

// reader reads what the follower holds, file after file, and sends the records.
type reader struct {
	env     sources.Env
	config  Config
	in      sources.Intake
	follow  *follow.Follower
	report  *report
	state   *state // what is saved
	buf     []byte
	decoder *formats.Decoder

	poll    time.Duration // how often it looks for more
	saved   time.Time     // when a state was last written, or could not be
	unsaved bool          // state is newer than what is saved

	idle atomic.Int64 // since when there is nothing to read and nothing to save, ns since 1970; 0: there is
}

func newReader(env sources.Env, c Config, poll time.Duration, in sources.Intake, f *follow.Follower, r *report, s *state) *reader {
	buffer := readBytes
	if r.file != "" {
		buffer = severalBytes
	}
	d := formats.NewDecoder(formats.Options{Format: c.Format, Limit: env.MaxRecordBytes, Redacts: env.Redaction != nil}, &s.Carry)
	return &reader{
		env: env, config: c, in: in, follow: f, report: r, state: s, decoder: d, poll: poll, buf: make([]byte, buffer),
		unsaved: env.Redaction != nil && d.HasText(), // of a configuration that did not redact
	}
}

// run reads until ctx is done, or the intake takes no more.
func (r *reader) run(ctx context.Context) error {
	defer func() {
		if r.unsaved && !r.holdsBack() { // a file was read to its end, and nothing of the next
			_ = r.saveNow(r.state) // it is reported; the end is read again, and recognised
		}
	}()
	for ctx.Err() == nil {
		file := r.follow.Next()
		if file == nil {
			r.restore()
			r.rest(true)
			if !r.pause(ctx, r.poll) {
				return nil
			}
			continue
		}
		if err := r.newReading(file).run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reading is the reading of one file.
type reading struct {
	*reader
	file  *follow.Reader
	known *follow.Contents // as the file has it, unless its lines have other numbers now; nil: nothing
	// contents is what will be saved, but for the place: its Number is that of the last
	// record before it.
	contents follow.Contents

	feed  *feed.Feed // nil: no record was sent yet
	acked uint64     // were durable when the feed was opened
	named bool       // contents have got their name here: nothing was sent under it before
	err   error      // of what was sent

	failing time.Time // since when the file cannot be read; zero: it can

	dirty   bool   // more was read than is saved or pending
	pending *state // to be saved once the records before its position are durable
	through uint64 // the last of those
}

func (r *reader) newReading(file *follow.Reader) *reading {
	rd := &reading{reader: r, file: file, known: file.Known()}
	if lost := r.decoder.Forget(); lost > 0 {
		rd.renumber(lost)
	}
	if rd.known != nil {
		rd.contents = *rd.known
	}
	r.decoder.Begin(rd.contents.Offset > 0 && !rd.contents.Unrecognised)
	return rd
}

// run reads to the end of the contents: when the writer has moved on to others, and a
// while has passed. It returns nil then, and when ctx is done.
func (r *reading) run(ctx context.Context) error {
	defer func() {
		if r.feed != nil {
			r.feed.Close()
		}
	}()
	for {
		data, err := r.file.Read(r.buf, r.decoder.IsBetween())
		r.decode(data)
		r.flush(ctx)
		switch {
		case r.err != nil:
			return r.stop(ctx, r.err)
		case errors.Is(err, follow.ErrMoved):
			return r.finish(ctx, err)
		case err != nil && !errors.Is(err, io.EOF):
			if r.failsTooLong(err) && r.file.IsOver() {
				return r.finish(ctx, err)
			}
		default:
			r.report.Set(theReading, "")
			r.failing = time.Time{}
		}
		r.save()
		if len(data) > 0 && ctx.Err() == nil {
			continue
		}
		if r.file.IsOver() && errors.Is(err, io.EOF) {
			return r.finish(ctx, nil)
		}
		r.rest(errors.Is(err, io.EOF) && !r.dirty && r.pending == nil && r.decoder.IsBetween())
		if !r.wait(ctx) {
			return r.stop(ctx, nil)
		}
	}
}

// rest notes whether there is nothing to do.
func (r *reader) rest(is bool) {
	switch {
	case !is:
		r.idle.Store(0)
	case r.idle.Load() == 0:
		r.idle.Store(time.Now().UnixNano())
	}
}

// decode chooses the records among what was read.
func (r *reading) decode(data []byte) {
	if len(data) > 0 {
		r.rest(false)
		r.decoder.Decode(data)
		r.dirty = true
	}
	r.report.passOver(r.decoder.PassedOver())
	switch {
	case r.decoder.Recognised():
		r.report.Set(theFormat, "")
	case len(data) == 0 && (r.decoder.HasSeen() || r.contents.Offset > 0 || formats.IsEncoded(r.file.Begins())):
		r.report.Set(theFormat, r.unrecognised()) // of all that is there
	}
}

// unrecognised says how a file begins of which nothing was recognised.
func (r *reading) unrecognised() string {
	sample := "docket redacts this source, and shows no sample"
	if r.env.Redaction == nil {
		begins := r.file.Begins()
		sample = fmt.Sprintf("it begins with %s", strconv.QuoteToASCII(string(begins[:min(len(begins), sampleBytes)])))
	}
	return fmt.Sprintf("docket recognises nothing in %s: %s. %s", r.file.Name(), sample, formats.Advice(r.file.Begins(), r.config.Format))
}

// renumber makes what was not read of the contents the lines of another producer, because
// lines before them are lost. What was sent of the rest and is not in the state is stored again:
// better than to take a line for one that has had its number.
func (r *reading) renumber(lost int) {
	r.report.Gap(follow.Lost{Lines: uint64(lost)}, "a line that was cut into pieces is lost: docket ended between them, and keeps nothing that is to be redacted", "path", r.config.Path)
	state := *r.state
	state.Carry = r.decoder.Carry()
	if r.known != nil {
		own := *r.known
		own.Generation, own.Producer, own.Number = 0, "", 0
		r.known = &own
	}
	r.state, r.unsaved = &state, true
}

// failsTooLong reports an error of reading, and whether it stands in the way of the files
// after this one for too long.
func (r *reading) failsTooLong(err error) bool {
	r.report.Set(theReading, fmt.Sprintf("cannot read %s: %v", r.file.Name(), err))
	if r.failing.IsZero() {
		r.failing = time.Now()
	}
	return time.Since(r.failing) >= giveUp
}

// finish ends the reading: the contents were read, or err says why not.
func (r *reading) finish(ctx context.Context, err error) error {
	r.report.Set(theReading, "")
	r.decoder.End(r.file.IsMoved())
	r.file.EndLine()
	if r.flush(ctx); r.err != nil {
		return r.stop(ctx, r.err)
	}
	if lost := r.file.Unread(); lost > 0 || err != nil && !errors.Is(err, follow.ErrMoved) {
		r.report.Gap(follow.Lost{Bytes: uint64(max(0, lost))}, "the end of a log file was not read: it was truncated, or cannot be read. Rotate by renaming", "path", r.file.Path(), "error", err)
	}
	if r.feed != nil {
		if err := r.feed.Settle(ctx); err != nil {
			return r.stop(ctx, err)
		}
	}
	done := r.snapshot()
	last := &done.Files[len(done.Files)-1]
	*last = r.file.Finish(*last)
	// It is saved with the first that is known of what comes next: nothing of that is
	// sent before.
	r.state, r.unsaved = done, true
	return nil
}

// stop ends the reading before its end. What is durable by then is saved.
func (r *reading) stop(ctx context.Context, cause error) error {
	if r.err == nil && r.feed != nil {
		settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
		defer cancel()
		r.err = r.feed.Settle(settling)
	}
	if r.err == nil && !r.holdsBack() && (r.dirty || r.pending != nil || r.unsaved || r.isGone()) {
		if err := r.saveNow(r.snapshot()); err != nil {
			r.env.Log.Warn("the position in the log file was not saved: docket will read the last lines again and recognise them", "error", err)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return cause
}

// wait waits until there may be more to read or to do; false: ctx is done.
func (r *reading) wait(ctx context.Context) bool {
	due := r.poll
	if at := r.file.Due(); r.failing.IsZero() && !at.IsZero() {
		due = min(due, max(0, time.Until(at)))
	}
	if r.dirty && !r.holdsBack() || r.pending != nil {
		due = min(due, max(settleCheck, time.Until(r.saved.Add(saveEvery))))
	}
	return r.pause(ctx, due)
}

// pause waits that long; false: ctx is done.
func (r *reader) pause(ctx context.Context, long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
