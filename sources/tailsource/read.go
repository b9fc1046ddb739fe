package tailsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/feed"
)

const (
	readBytes = 256 << 10
	// saveEvery is how often the position is written at most: each time costs a sync.
	saveEvery = time.Second
	// giveUp is how long a file that cannot be read is tried, once there are others.
	giveUp = time.Minute
	// framing is what a runtime puts before a line, at most.
	framing = 128
	// settleCheck is how often it is asked whether what was sent is durable.
	settleCheck = 20 * time.Millisecond
	// stopWait bounds how long a stop waits for that.
	stopWait = 3 * time.Second
)

// reader reads what the follower holds, file after file, and sends the records.
type reader struct {
	env    sources.Env
	config Config
	in     sources.Intake
	follow *follower
	report *report
	state  *state // what is saved
	buf    []byte

	decoder  decoder
	recalled bool      // decoder has what an earlier reader had
	saved    time.Time // when a state was last written, or could not be
	unsaved  bool      // state is newer than what is saved
	hinted   bool      // a format that does not fit was pointed out
}

func newReader(env sources.Env, c Config, in sources.Intake, f *follower, r *report, s *state) *reader {
	rd := &reader{env: env, config: c, in: in, follow: f, report: r, state: s, buf: make([]byte, readBytes)}
	rd.decoder = decoder{format: c.Format, limit: env.MaxRecordBytes, log: filepath.Base(c.Path), redaction: env.Redaction, carry: s.Carry.clone()}
	rd.unsaved = env.Redaction != nil && rd.carriesText() // of a configuration that did not redact
	return rd
}

// run reads until ctx is done, or the intake takes no more.
func (r *reader) run(ctx context.Context) error {
	defer func() {
		if r.unsaved { // a file was read to its end, and nothing of the next
			_ = r.saveNow(r.state) // it is reported; the end is read again, and recognised
		}
	}()
	for ctx.Err() == nil {
		g := r.follow.next()
		if g == nil {
			select {
			case <-r.follow.wake:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		if err := r.newReading(g).run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reading is the reading of one generation.
type reading struct {
	*reader
	g     *generation
	known *contents // as g has it, unless its lines have other numbers now; nil: nothing
	split splitter
	// contents is what will be saved: its Offset and Number are behind the last line
	// that was decoded, and its Tail is what is before that.
	contents contents
	taken           // what split has
	mark     []byte // what is before contents.Offset

	feed  *feed.Feed // nil: no record was sent yet
	acked uint64     // were durable when the feed was opened
	named bool       // contents have got their name here: nothing was sent under it before
	batch batch      // to be sent
	err   error      // of what was sent

	failing time.Time // since when the file cannot be read; zero: it can

	dirty   bool   // more was read than is saved or pending
	pending *state // to be saved once the records before its position are durable
	through uint64 // the last of those
}

func (r *reader) newReading(g *generation) *reading {
	rd := &reading{reader: r, g: g, split: splitter{limit: r.env.MaxRecordBytes + framing}}
	rd.contents = contents{Real: g.real, identity: g.identity}
	if rd.known = g.known; !r.recallCarry() {
		rd.renumber()
	}
	if rd.known != nil {
		rd.contents = *rd.known
		rd.contents.Done, rd.contents.identity = false, g.identity
		rd.pos = rd.contents.Offset
	}
	r.decoder.batch = &rd.batch
	return rd
}

// errMoved says that the contents are somewhere else now, or nowhere.
var errMoved = errors.New("the file has other contents now")

// run reads to the end of the contents: when the writer has moved on to others, and a
// while has passed. It returns nil then, and when ctx is done.
func (r *reading) run(ctx context.Context) error {
	defer func() {
		if r.feed != nil {
			r.feed.Close()
		}
	}()
	for {
		p := r.follow.position(r.g, r.taken)
		over := !p.over.IsZero() && !time.Now().Before(p.over)
		n, err := r.readOnce(p)
		r.flush(ctx)
		switch {
		case r.err != nil:
			return r.stop(ctx, r.err)
		case errors.Is(err, errMoved):
			if p.file == nil {
				return r.finish(ctx, p, err)
			}
			r.follow.differs(r.g, p.file)
			continue // to what has them, if anything has
		case err != nil && !errors.Is(err, io.EOF):
			if r.failsTooLong(err, p) && over {
				return r.finish(ctx, p, err)
			}
		default:
			r.report.set(theReading, "")
			r.failing = time.Time{}
		}
		r.save()
		if n > 0 && ctx.Err() == nil {
			continue
		}
		if over && errors.Is(err, io.EOF) {
			return r.finish(ctx, p, nil)
		}
		if !r.wait(ctx, p) {
			return r.stop(ctx, nil)
		}
	}
}

// failsTooLong reports an error of reading, and whether it stands in the way of the files
// after this one for too long.
func (r *reading) failsTooLong(err error, p position) bool {
	r.report.set(theReading, fmt.Sprintf("%s cannot be read: %v", p.file.Name(), err))
	if r.failing.IsZero() {
		r.failing = time.Now()
	}
	return time.Since(r.failing) >= giveUp
}

// readOnce reads what comes next and decodes it.
func (r *reading) readOnce(p position) (n int, err error) {
	if p.file == nil {
		return 0, errMoved
	}
	if err := r.recall(p.file); err != nil {
		return 0, err
	}
	if r.split.empty() && bytes.HasSuffix(r.tail, []byte{0}) {
		r.skipHole(p.file)
	}
	n, err = p.file.ReadAt(r.buf, r.pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	// After the read, so that nothing is taken for a line that begins within one.
	if err := r.check(p); err != nil {
		return 0, err
	}
	if n > 0 {
		r.take(r.buf[:n])
		return n, nil // an end comes again
	}
	return 0, err
}

// skipHole goes on where a hole ends, which reads as NUL bytes: it may be as long as the
// file was before it was truncated.
func (r *reading) skipHole(file *os.File) {
	end, err := file.Seek(r.pos, unix.SEEK_DATA)
	if err != nil || end-r.pos < readBytes {
		return // it is read like anything else
	}
	var nul [headBytes]byte
	r.head = append(r.head, nul[len(r.head):]...)
	r.tail = nul[:tailBytes]
	r.pos = end
}

// check reports with errMoved that what was read is no longer in the file or, before
// anything was, what was seen there.
func (r *reading) check(p position) error {
	same, err := r.isIn(p.file)
	if err == nil && r.pos == 0 && len(p.peek) > 0 {
		same = begins(p.file, p.peek)
	}
	if err == nil && !same {
		err = errMoved
	}
	return err
}

// recall reads what is before the position at which an earlier reading ended.
func (r *reading) recall(file *os.File) (err error) {
	if r.pos == 0 || r.head != nil {
		return nil
	}
	length := int(min(r.pos, tailBytes))
	if r.tail, err = part(file, r.pos-int64(length), length); err != nil {
		return err
	}
	if r.head, err = part(file, 0, int(min(r.pos, headBytes))); err != nil {
		return err
	}
	if r.head == nil || r.tail == nil {
		return errMoved
	}
	r.mark = bytes.Clone(r.tail)
	return nil
}

// take decodes what was read at pos.
func (r *reading) take(data []byte) {
	r.split.at = r.pos
	r.split.split(data, r.line)
	if missing := headBytes - len(r.head); missing > 0 {
		r.head = append(r.head, data[:min(len(data), missing)]...)
	}
	if whole := bytes.LastIndexByte(data, '\n') + 1; whole > 0 {
		r.mark = lastBytes(r.mark[:0], r.tail, data[:whole])
		r.contents.Offset = r.pos + int64(whole)
	}
	r.tail = lastBytes(nil, r.tail, data)
	r.pos += int64(len(data))
	r.dirty = true
}

// line decodes a line that split has found.
func (r *reading) line(text []byte, length int64) {
	r.decoder.at = origin{r.contents.Generation, r.split.begun}
	if r.contents.Generation == 0 {
		r.decoder.at.Generation = r.state.Generations + 1 // which name gives it
	}
	r.decoder.line(text, length)
}

// lastBytes appends to dst the last tailBytes of a and b in a row.
func lastBytes(dst, a, b []byte) []byte {
	b = b[max(0, len(b)-tailBytes):]
	a = a[max(0, len(a)+len(b)-tailBytes):]
	return append(append(dst, a...), b...)
}

// finish ends the reading: the contents were read, or err says why not.
func (r *reading) finish(ctx context.Context, p position, err error) error {
	r.report.set(theReading, "")
	if rest, length := r.split.rest(); len(rest) > 0 {
		r.line(rest, length)
	}
	r.contents.Offset, r.mark = r.pos, r.tail
	if p.moved {
		r.decoder.endAllJoined()
	}
	if r.flush(ctx); r.err != nil {
		return r.stop(ctx, r.err)
	}
	if lost := p.size - r.pos; lost > 0 || err != nil && !errors.Is(err, errMoved) {
		r.report.gap("the end of a log file was not read: it was overwritten and no copy has it, or it cannot be read", "path", r.g.real, "bytes", lost, "error", err)
	}
	if r.feed != nil {
		if err := r.feed.Settle(ctx); err != nil {
			return r.stop(ctx, err)
		}
	}
	done := r.snapshot()
	last := &done.Files[len(done.Files)-1]
	last.Done, last.Copied, last.Modified = true, p.copied, time.Now()
	if p.file != nil {
		if info, err := examine(p.file); err == nil {
			last.Modified = info.modified
		}
	}
	// It is saved with the first that is known of what comes next: nothing of that is
	// sent before.
	r.state, r.unsaved = done, true
	r.follow.finish(r.g, *last)
	return nil
}

// stop ends the reading before its end. What is durable by then is saved.
func (r *reading) stop(ctx context.Context, cause error) error {
	if r.err == nil && r.feed != nil {
		settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
		defer cancel()
		r.err = r.feed.Settle(settling)
	}
	if r.err == nil && (r.dirty || r.pending != nil || r.unsaved) {
		if err := r.saveNow(r.snapshot()); err != nil {
			r.env.Log.Warn("the position in the log file was not saved: what follows the last one is read again, and recognised", "error", err)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return cause
}

// wait waits until there may be more to read or to do; false: ctx is done.
func (r *reading) wait(ctx context.Context, p position) bool {
	due := time.Duration(-1)
	switch {
	case !r.failing.IsZero():
		due = saveEvery
	case !p.over.IsZero():
		due = max(0, time.Until(p.over))
	}
	if r.dirty || r.pending != nil {
		save := max(settleCheck, time.Until(r.saved.Add(saveEvery)))
		if due < 0 || save < due {
			due = save
		}
	}
	var alarm <-chan time.Time
	if due >= 0 {
		timer := time.NewTimer(due)
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-r.follow.wake:
	case <-alarm:
	case <-ctx.Done():
		return false
	}
	return true
}
