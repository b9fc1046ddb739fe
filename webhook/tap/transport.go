package tap

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
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
	// pieceBytes holds most reviews with their header, and is the most that a record of
	// TLS holds.
	pieceBytes = 16 << 10
	// maxAnswerHeaderBytes bounds the header of an answer, with those of its 1xx answers.
	maxAnswerHeaderBytes = 1 << 20
	// expectTime is how long a body waits for an engine that knows nothing of
	// "Expect: 100-continue".
	expectTime = time.Second
)

// transport sends requests to the engine, each once, over HTTP/1.1.
//
// An engine closes connections that were idle for long, at the moment when a request
// takes one, too. The request then takes another connection, but only if nothing was
// written to the first. net/http does so only for some of these failures, and sends some
// requests again of which the engine has seen something. Without GetBody it does neither
// for a request that has a body.
type transport struct{ http http.Transport }

func newTransport(e *engine) *transport {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		nc, err := e.dial(ctx)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: nc}, nil
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &transport{http.Transport{
		DialContext:            dial,
		DialTLSContext:         dial,
		Protocols:              &protocols,
		DisableCompression:     true, // which would ask for what the client has not asked for
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        idleTime,
		WriteBufferSize:        pieceBytes,
		ExpectContinueTimeout:  expectTime,
		MaxResponseHeaderBytes: maxAnswerHeaderBytes,
		// No ResponseHeaderTimeout: the API server says in each request how long it waits.
	}}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	x.asked = true
	// Of httputil, for this request alone. A trace of our own would have to be joined with it.
	httptrace.ContextClientTrace(req.Context()).GotConn = x.gotConn
	for {
		x.conn = nil
		if req.Body != nil {
			req.Body = &x.body
		}
		res, err := t.http.RoundTrip(req)
		if err == nil {
			return res, nil
		}
		if failure := x.body.failure(); failure != nil {
			return nil, failure // which was the cause
		}
		if !x.conn.unused() || req.Context().Err() != nil || !x.body.rewind() {
			return nil, err
		}
	}
}

// gotConn is for httptrace: the exchange has this connection from now on.
func (x *exchange) gotConn(info httptrace.GotConnInfo) {
	x.conn = info.Conn.(*conn)
	x.conn.reused, x.conn.taken = info.Reused, info.Reused
	x.conn.written.Store(false)
}

// conn is a connection to the engine. One request has it at a time.
type conn struct {
	net.Conn
	reused  bool        // the request that has it is not the first
	taken   bool        // nothing was written since a request took it from the idle ones
	written atomic.Bool // by the request that has it
}

var errClosedIdle = errors.New("the engine has closed the connection while it was idle")

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.taken && hasInput(c.socket()) { // its end, as nothing was asked for
		return 0, errClosedIdle
	}
	c.taken = false
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.written.Store(true)
	}
	return n, err
}

// ReadFrom implements io.ReaderFrom: io.Copy would make a buffer for each large body.
func (c *conn) ReadFrom(from io.Reader) (int64, error) {
	p := pieces.Get().(*piece)
	defer pieces.Put(p)
	return io.CopyBuffer(struct{ io.Writer }{c}, from, p[:])
}

// Close closes the connection below TLS. A goodbye would have the engine answer a request that
// has just been given up, and the answer could come before the end.
func (c *conn) Close() error { return c.socket().Close() }

// CloseWrite passes on that the client of a changed protocol will write no more. Both kinds of
// connections can.
func (c *conn) CloseWrite() error { return c.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// socket is the connection below TLS.
func (c *conn) socket() net.Conn {
	if over, ok := c.Conn.(*tls.Conn); ok {
		return over.NetConn()
	}
	return c.Conn
}

// unused reports whether the request that has c had an idle connection, and has written
// nothing to it. c may be nil: no connection was made.
func (c *conn) unused() bool { return c != nil && c.reused && !c.written.Load() }
