package tap

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// idleConnections bounds those that wait for the next request. A busy API server has
	// some dozens; an idle one costs the memory of its TLS buffers.
	idleConnections = 256
	// idleTime is less than the time that engines leave a connection open, most of them
	// 90 s or more, so that it is we who close.
	idleTime = 30 * time.Second
	// streamWindow is how much of an answer may be under way on HTTP/2 before we have
	// read it.
	streamWindow = 64 << 10
	// pieceBytes holds most reviews with their header, and is the most that a record of
	// TLS holds.
	pieceBytes = 16 << 10
	// maxAnswerHeaderBytes bounds the header of an answer.
	maxAnswerHeaderBytes = 1 << 20
)

// transport sends requests to the engine, each once.
//
// An engine closes connections that were idle for long, at the moment when a request
// takes one, too. The request then takes another connection, but only if the engine cannot
// have seen any of it: nothing was written to the connection. On HTTP/2 that cannot be
// known, so that it takes another only where the pool has not begun with it.
//
// BUG: a request that crosses the goodbye of an engine that speaks HTTP/2 alone is 502,
// although the engine says that it has not begun. Given the body anew, the pool would send
// it again, but does the same after PROTOCOL_ERROR, which does not say that.
type transport struct{ pool *http.Transport }

func newTransport(e *engine) *transport {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return e.dial(ctx) }
	return &transport{&http.Transport{
		DialContext:           dial,
		DialTLSContext:        dial,
		Protocols:             protocols(),
		DisableCompression:    true, // which would ask for what the client has not asked for
		MaxIdleConns:          idleConnections,
		MaxIdleConnsPerHost:   idleConnections,
		IdleConnTimeout:       idleTime,
		ExpectContinueTimeout: time.Second,
		// No ResponseHeaderTimeout: the API server says in each request how long it waits.
		MaxResponseHeaderBytes: maxAnswerHeaderBytes,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: streamWindow, SendPingTimeout: idleTime},
	}}
}

func protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	return &p
}

// pieces are buffers of pieceBytes.
var pieces = sync.Pool{New: func() any { return new([pieceBytes]byte) }}

// attempt is one try to send a request.
type attempt struct {
	conn    *countedConn // nil: HTTP/2, or none yet
	written uint64       // to conn, before it
	reused  bool
	sized   bool // the header is followed by a body of known length
}

// gotConn is told of the connection that the request is given.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	a.conn, _ = info.Conn.(*countedConn)
	a.reused = info.Reused
	if a.conn == nil {
		return
	}
	a.written = a.conn.written.Load()
	a.conn.suspect.Store(info.Reused)
	a.conn.holds.Store(a.sized)
}

// spent reports whether the engine may have seen some of the request.
func (a *attempt) spent() bool {
	return a.conn == nil || a.conn.written.Load() != a.written
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	res, err := t.send(req, x)
	x.unanswered = err != nil
	return res, err
}

func (t *transport) send(req *http.Request, x *exchange) (*http.Response, error) {
	a := &attempt{sized: req.ContentLength > 0 && req.Header.Get("Expect") == ""}
	x.body.spent = a.spent
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: a.gotConn}))
	if req.Body != nil {
		// Without GetBody the pool sends nothing again of which it has read some.
		req.Body = x.body.open()
	}
	for {
		a.conn, a.reused = nil, false // it may get none
		res, err := t.pool.RoundTrip(req)
		// The pool does not send a POST again whose connection closed while it was idle.
		if err == nil || !a.reused || a.spent() || x.body.failure() != nil || req.Context().Err() != nil {
			return res, err
		}
		if req.Body != nil {
			body := x.body.open()
			if body == nil {
				return nil, err
			}
			req = req.Clone(req.Context())
			req.Body = body
		}
	}
}

// countedConn is a connection to the engine that speaks HTTP/1.1.
type countedConn struct {
	net.Conn
	socket  net.Conn      // below TLS
	written atomic.Uint64 // bytes that the engine can have read
	suspect atomic.Bool   // it was idle, and nothing has been written since
	holds   atomic.Bool   // the header that is written next waits for its body
	head    []byte        // the header that waits; owned by who writes
}

var errClosedIdle = errors.New("the engine has closed the connection while it was idle")

// Write writes p. Before the first bytes of a request it looks whether the engine has
// closed the connection, which the pool may not know yet. The pool writes the header of a
// request and then gives its body to ReadFrom: they leave together.
func (c *countedConn) Write(p []byte) (int, error) {
	if c.suspect.CompareAndSwap(true, false) && hasInput(c.socket) {
		return 0, errClosedIdle
	}
	if c.holds.CompareAndSwap(true, false) {
		c.head = append(c.head[:0], p...)
		return len(p), nil
	}
	if len(c.head) > 0 { // and this is the rest of it
		if err := c.send(c.head); err != nil {
			return 0, err
		}
		c.head = c.head[:0]
	}
	return len(p), c.send(p)
}

// ReadFrom writes all that r has, in pieces that most reviews need one of. The piece in
// which r breaks off is not written.
func (c *countedConn) ReadFrom(r io.Reader) (read int64, err error) {
	piece := pieces.Get().(*[pieceBytes]byte)
	defer pieces.Put(piece)
	filled := copy(piece[:], c.head)
	c.head = c.head[:0]
	for {
		for filled < len(piece) && err == nil {
			var n int
			n, err = r.Read(piece[filled:])
			filled, read = filled+n, read+int64(n)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return read, err
		}
		if failed := c.send(piece[:filled]); failed != nil || err != nil {
			return read, failed
		}
		filled = 0
	}
}

// send writes p, and counts it.
func (c *countedConn) send(p []byte) error {
	n, err := c.Conn.Write(p)
	c.written.Add(uint64(n))
	return err
}

func newCountedConn(nc net.Conn) *countedConn {
	c := &countedConn{Conn: nc, socket: nc}
	if over, ok := nc.(*tls.Conn); ok {
		c.socket = over.NetConn()
	}
	return c
}
