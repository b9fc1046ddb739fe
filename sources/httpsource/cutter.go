package httpsource

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/docket-export/docket/decision/rawjson"
)

const (
	// chunkBytes is how much of a body is read at a time.
	chunkBytes = 64 << 10
	// prefixBytes is how much of an event that is too long is kept, for a person to see
	// what it is.
	prefixBytes = 1 << 10
	// maxReads is how often in a row a reader may return nothing.
	maxReads = 100
)

// bodyError is what is wrong with a body as a whole.
type bodyError string

func (e bodyError) Error() string { return string(e) }

// cutter cuts a body into its events while it is read, and holds one chunk of it. It
// looks at brackets and strings alone: whether an event is JSON is for the intake to
// say. The events of a body that is JSON are returned as they stand in it, but for
// newlines, which would end a line.
type cutter struct {
	r      io.Reader
	member string // see Protocol.Member
	limit  int    // of one event, in bytes

	buf     []byte
	rest    []byte // of buf: read and not yet looked at
	readErr error  // what r has returned
	state   cutterState
	found   bool // the member was seen
}

type cutterState uint8

const (
	atStart    cutterState = iota // of the body
	atFirst                       // of the array: an event or its end comes
	afterEvent                    // a comma or the end of the array comes
)

// newCutter returns a cutter that reads from r through buf, which must not be empty.
func newCutter(r io.Reader, member string, limit int, buf []byte) *cutter {
	return &cutter{r: r, member: member, limit: limit, buf: buf}
}

// next appends the next event to dst. If it is longer than the limit, length is its
// length and dst got how it begins; otherwise length is 0. The error is io.EOF once the
// whole body was read and is complete, a bodyError, or that of the reader.
func (c *cutter) next(dst []byte) (out []byte, length int64, err error) {
	if err := c.toEvent(); err != nil {
		return dst, 0, err
	}
	return c.value(dst)
}

// toEvent reads up to the first byte of the next event.
func (c *cutter) toEvent() error {
	if c.state == atStart {
		if err := c.enter(); err != nil {
			return err
		}
	}
	for {
		b, err := c.token()
		switch {
		case err != nil:
			return err
		case b == ']':
			c.skip()
			if err := c.leave(); err != nil {
				return err
			}
		case c.state == atFirst:
			c.state = afterEvent
			return nil
		case b != ',':
			return bodyError(fmt.Sprintf("is not JSON: expected a comma or ], not %q", b))
		default:
			c.skip()
			_, err := c.token()
			return err
		}
	}
}

// enter reads up to the first event.
func (c *cutter) enter() error {
	want := byte('[')
	if c.member != "" {
		want = '{'
	}
	b, err := c.token()
	for i, mark := range []byte("\xef\xbb\xbf") { // a byte order mark, which RFC 8259 lets a reader skip
		if err != nil || i == 0 && b != mark {
			break
		}
		if b != mark {
			return bodyError("begins with half a byte order mark")
		}
		c.skip()
		b, err = c.token()
	}
	if err != nil {
		return err
	}
	if b != want {
		return bodyError(fmt.Sprintf("must begin with %q, not %q", want, b))
	}
	c.skip()
	if c.member == "" {
		c.state = atFirst
		return nil
	}
	if b, err = c.token(); err != nil {
		return err
	}
	if b == '}' {
		return c.members(b)
	}
	return c.members(',') // as if there were one before the first
}

// leave reads on after the end of the array: to the end of the body, or to the next
// array of the same name.
func (c *cutter) leave() error {
	if c.member == "" {
		return c.finish()
	}
	b, err := c.token()
	if err != nil {
		return err
	}
	if b == ',' {
		c.skip()
	}
	return c.members(b)
}

// members reads members of the body until the one that holds the events, whose array it
// enters. b is what stands before them: a comma, which is skipped already, or what may
// end the body.
func (c *cutter) members(b byte) error {
	for b == ',' {
		isEvents, err := c.name()
		if err != nil {
			return err
		}
		if b, err = c.token(); err != nil {
			return err
		}
		if isEvents && b == '[' {
			c.skip()
			c.state, c.found = atFirst, true
			return nil
		}
		value, _, err := c.value(nil)
		if err != nil {
			return err
		}
		if isEvents && string(value) != "null" { // which is how Go writes an empty one
			return bodyError(fmt.Sprintf("must have an array as %q", c.member))
		}
		c.found = c.found || isEvents
		if b, err = c.token(); err != nil {
			return err
		}
		if b == ',' {
			c.skip()
		}
	}
	if b != '}' {
		return bodyError(fmt.Sprintf("is not JSON: expected a comma or }, not %q", b))
	}
	c.skip()
	if !c.found {
		return bodyError(fmt.Sprintf("has no member %q", c.member))
	}
	return c.finish()
}

// name reads the name of a member and the colon, and reports whether it is that of the
// events.
func (c *cutter) name() (isEvents bool, err error) {
	b, err := c.token()
	if err != nil {
		return false, err
	}
	if b != '"' {
		return false, bodyError(fmt.Sprintf("is not JSON: expected a name, not %q", b))
	}
	name, _, err := c.value(nil)
	if err != nil {
		return false, err
	}
	if b, err = c.token(); err != nil {
		return false, err
	}
	if b != ':' {
		return false, bodyError(fmt.Sprintf("is not JSON: expected a colon, not %q", b))
	}
	c.skip()
	return string(name) == `"`+c.member+`"`, nil
}

// finish reads what follows the end of the body, which must be nothing. A checksum that
// the body ends with has been seen then.
func (c *cutter) finish() error {
	b, err := c.token()
	if err == nil {
		return bodyError(fmt.Sprintf("has text after its end: %q", b))
	}
	if _, ended := errors.AsType[bodyError](err); ended {
		return io.EOF
	}
	return err
}

// token returns the next byte that is no white space, and leaves it to be read.
func (c *cutter) token() (byte, error) {
	for {
		for i, b := range c.rest {
			if b != ' ' && b != '\n' && b != '\r' && b != '\t' {
				c.rest = c.rest[i:]
				return b, nil
			}
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
}

// skip goes on after the byte that token has returned.
func (c *cutter) skip() { c.rest = c.rest[1:] }

// fill reads the next chunk. What is left of the last one is given up.
func (c *cutter) fill() error {
	c.rest = nil
	for range maxReads {
		if c.readErr != nil {
			break
		}
		var n int
		if n, c.readErr = c.r.Read(c.buf); n > 0 {
			c.rest = c.buf[:n]
			return nil
		}
	}
	switch {
	case c.readErr == nil:
		return io.ErrNoProgress
	case errors.Is(c.readErr, io.EOF):
		return bodyError("ends too early")
	}
	return c.readErr
}

// value appends to dst the value whose first byte token has returned; see next.
func (c *cutter) value(dst []byte) (out []byte, length int64, err error) {
	start := len(dst)
	var end rawjson.End
	for {
		n, done := end.Next(c.rest)
		length += int64(n)
		switch {
		case length <= int64(c.limit):
			dst = append(dst, c.rest[:n]...)
		case length-int64(n) <= int64(c.limit): // it has become too long
			dst = append(dst, c.rest[:n]...)
			dst = dst[:start+min(prefixBytes, c.limit)]
		}
		c.rest = c.rest[n:]
		if done {
			break
		}
		if err := c.fill(); err != nil {
			return dst[:start], 0, err
		}
	}
	if length == 0 {
		return dst, 0, bodyError(fmt.Sprintf("is not JSON: expected a value, not %q", c.rest[0]))
	}
	if length <= int64(c.limit) {
		length = 0
	}
	replaceNewlines(dst[start:])
	return dst, length, nil
}

// replaceNewlines replaces newlines in a value, because they would end a line. Between
// tokens a space says the same. In a string a newline is an error, and becomes another
// control character: the value must not become valid by being read.
func replaceNewlines(value []byte) {
	if bytes.IndexByte(value, '\n') < 0 {
		return
	}
	for i := 0; i < len(value); {
		end, instead := i+1, byte(' ')
		if value[i] == '"' {
			end, instead = rawjson.StringEnd(value, i), '\r'
		}
		for ; i < end; i++ {
			if value[i] == '\n' {
				value[i] = instead
			}
		}
	}
}
