package streamsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/docket-export/docket/decision/stream"
	"github.com/docket-export/docket/internal/budget"
	"github.com/docket-export/docket/sources"
)

// lastLook is how long a stop goes on reading from a producer in plain mode, or
// longer for as long as there are bytes to read: what it has written already
// cannot be asked for again, and a busy machine may get to it late.
const lastLook = 200 * time.Millisecond

// farewellWait is how long a producer may take to read what was said last: some
// round trips. sever cuts it short when a stop would take too long.
const farewellWait = time.Second

// conn is one connection. Everything but evict runs in its own goroutine.
type conn struct {
	server *server
	nc     net.Conn
	seat   *seat
	lines  *lineReader

	// stop is done when the source stops: no more lines are to be read.
	stop context.Context
	// reading is done when no more lines are to be read, for that or for a reason of
	// this connection, which is its cause.
	reading    context.Context
	endReading context.CancelCauseFunc
	// ctx is done when nothing is to be waited for any more; its cause is a
	// farewell. It covers what is under way in the intake.
	ctx    context.Context
	cancel context.CancelCauseFunc

	greeted bool            // acknowledged mode: the producer has said hello
	session sources.Session // nil until the intake has opened one
	answers *answers        // nil until then, and in plain mode
	looking bool            // the last look has begun
}

// serve runs the connection to its end, which it returns: io.EOF, a farewell, a
// fault, or an error of the network.
func (c *conn) serve() error {
	defer c.cancel(nil)
	defer context.AfterFunc(c.stop, func() { c.endReading(errStopping) })()
	// A past deadline wakes the reader, which then sees why.
	defer context.AfterFunc(c.reading, c.interrupt)()
	end := c.receive()
	c.lines.release()
	c.finish(end)
	return end
}

// interrupt makes a read that is under way, and every later one, return.
func (c *conn) interrupt() {
	// It fails only on a closed connection, where no read waits.
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
}

// evict ends the connection because the producer has a newer one.
func (c *conn) evict() {
	c.cancel(errTakenOver)
}

// lineMemory is what the lines of a connection may take.
type lineMemory struct {
	*budget.Holder
	reading context.Context
}

// Take waits for memory until no more lines are to be read.
func (m lineMemory) Take(n int) error { return m.Holder.Take(m.reading, n) }

// receive hands lines to the session until there are no more, and returns why.
func (c *conn) receive() error {
	for {
		lines, length, err := c.lines.next()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				if err = c.interrupted(); err == nil {
					continue
				}
			}
			return c.endOfLines(err)
		}
		c.seat.use()
		if c.session == nil {
			if lines, err = c.begin(lines, length); err != nil {
				return err
			}
		}
		if err := c.submit(lines, length); err != nil {
			return err
		}
	}
}

// interrupted says why the read deadline has passed; nil is for the last look.
func (c *conn) interrupted() error {
	why := context.Cause(c.reading)
	switch {
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case c.answers != nil || errors.Is(why, errSlowLine):
		return why
	case c.looking && (!errors.Is(why, errStopping) || !c.lines.ready()):
		return why
	}
	c.looking = true
	return c.nc.SetReadDeadline(time.Now().Add(lastLook))
}

// endOfLines deals with what came after the last newline. In acknowledged mode
// that has no number yet and comes again. In plain mode it will not, and the
// intake decides whether it is a whole record.
func (c *conn) endOfLines(end error) error {
	endless := errors.Is(end, errEndless)
	if endless {
		end = fault(fmt.Sprintf("lost framing: no newline in %d times the limit of %d bytes a line", endlessFactor, c.lines.limit))
	}
	line, length := c.lines.rest()
	if c.session == nil && !blank(line) {
		if err := c.open(line); err != nil {
			return err
		}
	}
	if len(line) == 0 || c.session == nil || c.answers != nil && !endless {
		return end
	}
	if length <= int64(c.lines.limit) {
		line, length = append(line, '\n'), 0
	}
	if err := c.submit(line, length); err != nil {
		return err
	}
	return end
}

// begin opens the session that the first line which is not blank asks for. It
// returns the lines that are left to submit: without a hello.
func (c *conn) begin(lines []byte, length int64) ([]byte, error) {
	if length > 0 {
		return lines, c.open(lines)
	}
	lines = sources.WithoutMark(skipBlank(lines))
	if len(lines) == 0 {
		return nil, nil
	}
	size := bytes.IndexByte(lines, '\n')
	if err := c.open(lines[:size]); err != nil {
		return nil, err
	}
	if c.answers != nil {
		return lines[size+1:], nil
	}
	return lines, nil
}

// skipBlank returns lines from the first one that is not blank.
func skipBlank(lines []byte) []byte {
	first := 0
	for i, c := range lines {
		switch c {
		case '\n':
			first = i + 1
		case ' ', '\t', '\r':
		default:
			return lines[first:]
		}
	}
	return nil
}

// open opens the session that the first line asks for.
func (c *conn) open(first []byte) error {
	o := sources.Opening{Source: c.server.source, Identity: c.seat.identity}
	hello, err := stream.ParseHello(first)
	if errors.Is(err, stream.ErrNotHello) {
		session, _, err := c.server.intake.Open(c.ctx, o)
		if err != nil {
			return c.because(err)
		}
		c.session = session
		return nil
	}
	if err != nil {
		return fault(err.Error())
	}

	c.greeted = true
	// An older connection of the producer may take its time to settle. A stop
	// does not wait for that, because nothing has been submitted here.
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.stop, func() { cancel(errStopping) })()
	a := newAnswers(c.nc, hello.Next)
	o.Producer, o.Next, o.Evict, o.Settled = hello.Producer, hello.Next, c.evict, a.receive
	o.Drained = func(ctx context.Context) error { return a.drain(ctx, c.stop) }
	session, acked, err := c.server.intake.Open(ctx, o)
	if err != nil {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, sources.ErrTooManyGaps):
			return fault(err.Error())
		}
		return c.because(err)
	}
	c.session, c.answers = session, a
	a.start(acked)
	return nil
}

// submit hands lines, or the beginning of one that is over the limit, to the
// session.
func (c *conn) submit(lines []byte, length int64) error {
	switch {
	case len(lines) == 0:
		return nil
	case c.answers == nil && length == 0:
		return c.because(c.session.Submit(c.ctx, lines))
	case length == 0:
		return c.submitNumbered(lines)
	case c.answers != nil:
		if err := c.answers.reserve(c.ctx, c.stop, 1); err != nil {
			return err
		}
	}
	return c.because(c.session.SubmitTooLarge(c.ctx, lines[:c.lines.limit], length))
}

// submitNumbered hands over lines of acknowledged mode, as many at once as may
// be unanswered. A stop need not wait for them: what is not answered comes again.
func (c *conn) submitNumbered(lines []byte) error {
	for len(lines) > 0 {
		if c.stop.Err() != nil {
			return errStopping
		}
		size, count, hello := cut(lines)
		if size > 0 {
			if err := c.answers.reserve(c.ctx, c.stop, count); err != nil {
				return err
			}
			if err := c.because(c.session.Submit(c.ctx, lines[:size:size])); err != nil {
				return err
			}
		}
		if hello {
			return fault("broken hello: a connection has only one, on its first line")
		}
		lines = lines[size:]
	}
	return nil
}

// cut returns the size of the lines that can be submitted together, and how many
// of them have a number. They end before a line that is a hello, or with the
// last that may be unanswered. Looking at the beginning of each line costs less
// than searching all of them for "docket", which a record may well mention.
func cut(lines []byte) (size, count int, hello bool) {
	for size < len(lines) && count < maxUnanswered {
		n := bytes.IndexByte(lines[size:], '\n')
		line := lines[size : size+n]
		if stream.IsHello(line) {
			return size, count, true
		}
		if !blank(line) {
			count++
		}
		size += n + 1
	}
	return size, count, false
}

// because returns the error of a call to the intake as the reason to end.
func (c *conn) because(err error) error {
	switch {
	case err == nil:
		return nil
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	}
	if _, ok := errors.AsType[farewell](err); ok { // of drain
		return err
	}
	return fmt.Errorf("%w: %w", errNoIntake, err)
}

// finish waits until what was submitted is settled, tells the producer, and
// closes the connection.
func (c *conn) finish(end error) {
	defer c.nc.Close()
	if c.answers != nil {
		c.answers.expire()
	}
	if c.session != nil {
		// After the intake has failed nothing will be settled. Otherwise an error
		// says that the time for it is over; what is not settled is not acked.
		if !errors.Is(end, errNoIntake) {
			_ = c.session.Settle(c.ctx)
		}
		c.session.Close()
	}
	var closing []byte
	if reason := reasonFor(end); reason != "" {
		closing = stream.Closing{Reason: reason}.Append(nil)
	}
	if c.answers != nil {
		c.answers.finish(closing)
	} else if _, ok := errors.AsType[fault](end); ok || c.greeted {
		tell(c.nc, closing)
	} else {
		return // nothing was said in plain mode
	}
	if closing != nil {
		c.awaitEnd()
	}
}

// awaitEnd gives the producer a moment to read what was said last and to end the
// connection itself. To close a TCP connection with bytes in it that nobody has
// read makes the kernel throw away what it has not sent yet; a Unix socket keeps
// what was written.
func (c *conn) awaitEnd() {
	if _, isUnix := c.nc.(*net.UnixConn); isUnix {
		return
	}
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || c.nc.SetDeadline(time.Now().Add(c.server.farewellWait)) != nil || half.CloseWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, c.nc)
}

// tell writes the only line of a connection. A new connection has room for it,
// so that a producer that does not read cannot hold this up for long.
func tell(nc net.Conn, line []byte) {
	if err := nc.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return
	}
	_, _ = nc.Write(line) // the producer may have gone; nobody else can be told
}

// blank reports whether a line has nothing but what JSON allows around a value.
// The intake means the same by a blank line: one that has no number.
func blank(line []byte) bool {
	for _, c := range line { // bytes.TrimLeft would make a table of the three each time
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
