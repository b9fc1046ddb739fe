package tap

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// pieceBytes holds most reviews with their header, and is the most that a record of
	// TLS holds.
	pieceBytes = 16 << 10
	// maxAnswerHeaderBytes bounds the header of an answer, with those of its 1xx answers.
	maxAnswerHeaderBytes = 1 << 20
	// expectTime is how long a body waits for an engine that knows nothing of
	// "Expect: 100-continue".
	expectTime = time.Second
	// lastWriteTime is how long the end of an answer waits for the end of the request,
	// which the engine has read already, so that the connection can be used again.
	lastWriteTime = 50 * time.Millisecond
)

// pieces are buffers of pieceBytes.
var pieces = sync.Pool{New: func() any { return new([pieceBytes]byte) }}

var (
	errUnwritten = errors.New("the engine has closed the connection while it was idle")
	errMalformed = errors.New("the request has a method or a path that HTTP/1.1 does not allow")
)

// conn is a connection to the engine that speaks HTTP/1.1. One request has it at a time.
type conn struct {
	net.Conn
	socket net.Conn // below TLS
	from   *transport
	limit  io.LimitedReader // what may still be read of the connection
	in     *bufio.Reader    // reads limit
	used   bool             // by a request before
	since  time.Time        // when it became idle; guarded by from.mu
}

func newConn(nc net.Conn, from *transport) *conn {
	c := &conn{Conn: nc, socket: nc, from: from, limit: io.LimitedReader{R: nc}}
	c.in = bufio.NewReader(&c.limit)
	if over, ok := nc.(*tls.Conn); ok {
		c.socket = over.NetConn()
	}
	return c
}

// sending is a request on its way.
type sending struct {
	req  *http.Request
	body *body

	piece *[pieceBytes]byte // nil: nothing was read of the body yet
	first []byte            // the header, and as much of the body as leaves with it
	head  int               // bytes of the header in first
	left  int64             // of the body after first; -1: until it ends
	over  bool              // the body has ended with first

	goOn  chan bool     // closed, or has one value: whether the body is wanted; nil: it is
	done  chan struct{} // closed when the rest of the body was written, or cannot be; nil: there is none
	whole bool          // the request was written to its end; set before done is closed
}

func (s *sending) release() {
	if s.piece != nil {
		pieces.Put(s.piece)
	}
}

// prepare makes the first piece: the header, and as much of the body as fits. Where the
// length of the body is not known, or the engine is to say whether it wants it, the header
// leaves alone.
func (s *sending) prepare() error {
	if s.piece != nil {
		return nil
	}
	s.piece = pieces.Get().(*[pieceBytes]byte)
	buf := bytes.NewBuffer(s.piece[:0])
	if err := s.writeHeader(buf); err != nil {
		return err
	}
	s.first, s.head = buf.Bytes(), buf.Len()
	if s.over || s.left < 0 || s.goOn != nil {
		return nil
	}
	rest := s.first[len(s.first):cap(s.first)]
	n, err := s.fill(rest)
	s.first = s.first[:len(s.first)+n]
	s.over = errors.Is(err, io.EOF)
	if s.over {
		err = nil
	}
	return err
}

// fill fills p from a body of known length. io.EOF: it has ended in time.
func (s *sending) fill(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var read int
		read, err = s.body.Read(p[n:])
		n += read
	}
	s.left -= int64(n)
	if s.left < 0 || s.left > 0 && errors.Is(err, io.EOF) {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// ownHeaders are those of each connection. Of anonymous requests User-Agent is one besides:
// httputil gives them an empty one, for transports that would add their own.
var (
	ownHeaders       = map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true}
	ownWithUserAgent = map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true, "User-Agent": true}
)

// writeHeader writes the header, and finds out how the body is sent.
func (s *sending) writeHeader(w *bytes.Buffer) error {
	r, target := s.req, s.req.RequestURI
	if !isToken(r.Method) || target == "" || strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return errMalformed
	}
	// The target is not made from its parts: bytes are escaped as they came.
	fmt.Fprintf(w, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, target, r.Host)
	_, sized := r.Header["Content-Length"]
	switch {
	case r.Body == nil:
		s.over = true
		if sized || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
			w.WriteString("Content-Length: 0\r\n")
		}
	case r.ContentLength > 0 && len(r.Trailer) == 0:
		s.left = r.ContentLength
		fmt.Fprintf(w, "Content-Length: %d\r\n", s.left)
	default:
		s.left = -1
		w.WriteString("Transfer-Encoding: chunked\r\n")
		for key := range r.Trailer {
			fmt.Fprintf(w, "Trailer: %s\r\n", key)
		}
	}
	if !s.over && strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		s.goOn = make(chan bool, 1)
	}
	own := ownHeaders
	if agent := r.Header["User-Agent"]; len(agent) == 1 && agent[0] == "" {
		own = ownWithUserAgent
	}
	_ = r.Header.WriteSubset(w, own) // a buffer takes it
	w.WriteString("\r\n")
	return nil
}

// isToken reports whether method is one that a request can have in HTTP/1.1: over HTTP/2
// there may be more in it.
func isToken(method string) bool {
	return method != "" && !strings.ContainsFunc(method, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

// roundTrip sends a request and returns its answer. With errUnwritten the engine cannot
// have seen any of it.
func (c *conn) roundTrip(s *sending) (res *http.Response, err error) {
	// Below TLS, which would tell the engine first, and have its answer to that.
	stop := context.AfterFunc(s.req.Context(), func() { c.socket.Close() })
	defer func() {
		if err != nil {
			stop()
			c.Close()
			if s.done != nil {
				s.want(false)
			}
		}
	}()
	if err := s.prepare(); err != nil {
		return nil, err
	}
	if c.used && hasInput(c.socket) { // its end, as nothing was asked for
		return nil, errUnwritten
	}
	if n, err := c.Write(s.first); err != nil {
		if c.used && n == 0 && s.req.Context().Err() == nil {
			return nil, errUnwritten
		}
		return nil, err
	}
	if !s.over {
		s.done = make(chan struct{})
		go c.sendRest(s)
	}
	if res, err = c.readAnswer(s); err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = switched{c}
	} else {
		res.Body = &answerBody{ReadCloser: res.Body, conn: c, sent: s, stop: stop, close: res.Close}
	}
	return res, nil
}

// sendRest writes the rest of the body. It may outlive the exchange in reading it.
func (c *conn) sendRest(s *sending) {
	defer close(s.done)
	if s.goOn != nil {
		select {
		case wanted := <-s.goOn:
			if !wanted {
				return
			}
		case <-time.After(expectTime):
		}
	}
	piece := pieces.Get().(*[pieceBytes]byte)
	defer pieces.Put(piece)
	write := c.writeSized
	if s.left < 0 {
		write = c.writeChunked
	}
	if err := write(s, piece[:]); err != nil {
		if s.body.failure() != nil {
			// The engine would wait for more, and we for its answer. Below TLS, which would tell
			// the engine first, and have its answer to that.
			c.socket.Close()
		}
		return
	}
	s.whole = true
}

func (c *conn) writeSized(s *sending, piece []byte) error {
	for ended := false; !ended; {
		n, err := s.fill(piece)
		ended = errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		if n == 0 {
			continue // or TLS would write an empty record
		}
		if _, err := c.Write(piece[:n]); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) writeChunked(s *sending, piece []byte) error {
	const head, tail = len("0000\r\n"), len("\r\n")
	for {
		n, err := s.body.Read(piece[head : len(piece)-tail])
		if n > 0 {
			copy(piece, fmt.Sprintf("%04x\r\n", n))
			copy(piece[head+n:], "\r\n")
			if _, failed := c.Write(piece[:head+n+tail]); failed != nil {
				return failed
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			end := bytes.NewBufferString("0\r\n")
			_ = s.req.Trailer.Write(end) // a buffer takes it
			end.WriteString("\r\n")
			_, err = c.Write(end.Bytes())
			return err
		case err != nil:
			return err
		}
	}
}

// readAnswer reads the header of the answer, and passes 1xx answers on.
func (c *conn) readAnswer(s *sending) (*http.Response, error) {
	c.limit.N = maxAnswerHeaderBytes
	trace := httptrace.ContextClientTrace(s.req.Context())
	for {
		res, err := http.ReadResponse(c.in, s.req)
		if err != nil && c.limit.N <= 0 {
			err = fmt.Errorf("the header of the answer has more than %d bytes", maxAnswerHeaderBytes)
		}
		if err != nil {
			return nil, err
		}
		if res.StatusCode/100 != 1 || res.StatusCode == http.StatusSwitchingProtocols {
			c.limit.N = math.MaxInt64
			s.want(false) // if the engine has not said before that it wants it
			return res, nil
		}
		if res.StatusCode == http.StatusContinue {
			s.want(true)
		}
		if trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(res.StatusCode, textproto.MIMEHeader(res.Header)); err != nil {
				return nil, err
			}
		}
	}
}

// want says whether a body that waits is wanted. What was said first holds.
func (s *sending) want(wanted bool) {
	select {
	case s.goOn <- wanted:
	default:
	}
}

// ended reports whether the engine was sent the whole request.
func (s *sending) ended() bool {
	if s.done == nil {
		return true
	}
	wait := time.Duration(0)
	if s.body.ended() {
		wait = lastWriteTime
	}
	select {
	case <-s.done:
		return s.whole
	case <-time.After(wait):
		return false
	}
}

// answerBody is the body of an answer. When it was read to its end its connection serves
// the next request.
type answerBody struct {
	io.ReadCloser
	conn  *conn
	sent  *sending
	stop  func() bool // does not let the end of the request close the connection any more
	close bool        // the engine closes the connection
	over  bool
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	if b.over {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.finish(errors.Is(err, io.EOF))
	}
	return n, err
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	b.finish(b.ReadCloser == http.NoBody)
	return nil
}

func (b *answerBody) finish(whole bool) {
	if b.over {
		return
	}
	b.over = true
	if b.stop() && whole && !b.close && b.sent.ended() && b.conn.quiet() {
		b.conn.used = true
		b.conn.from.put(b.conn)
		return
	}
	b.conn.Close()
}

// quiet reports whether nothing was read but one answer: what else came belongs to none.
// What is still in the socket is found out by the next request.
func (c *conn) quiet() bool {
	// Without waiting, as TLS may have read more than it has shown.
	_ = c.SetReadDeadline(time.Unix(1, 0))
	_, err := c.in.Peek(1)
	_ = c.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// switched is a connection that has changed its protocol. The end of the request closes it.
type switched struct{ *conn }

func (s switched) Read(p []byte) (int, error) { return s.in.Read(p) }

// CloseWrite passes on that the client will write no more. Both kinds of connections can.
func (s switched) CloseWrite() error { return s.Conn.(interface{ CloseWrite() error }).CloseWrite() }
