package tap

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
)

// transport sends requests to the engine, each once, on connections of HTTP/1.1 that it
// keeps. A request costs no goroutine: that of its handler does everything, unless the body
// is larger than a piece.
//
// An engine closes connections that were idle for long, at the moment when a request
// takes one, too. The request then takes another connection, but only if nothing was
// written to the first.
//
// BUG: a request that crosses the goodbye of an engine that speaks HTTP/2 alone is 502,
// although the engine says that it has not begun. Given the body anew, net/http would send
// it again, but does the same after PROTOCOL_ERROR, which does not say that.
type transport struct {
	dial    func(context.Context) (net.Conn, error)
	isHTTP2 atomic.Bool     // the engine, when it was dialed last
	http2   *http.Transport // for an engine that takes nothing else

	mu      sync.Mutex
	idle    []*conn     // the one that was used last is the last; guarded by mu
	janitor *time.Timer // closes those that were idle for long; guarded by mu; nil: there are none
}

func newTransport(e *engine) *transport {
	t := &transport{dial: e.dial}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return t.connect(ctx) }
	t.http2 = &http.Transport{
		DialContext:        dial,
		DialTLSContext:     dial,
		Protocols:          protocols(),
		DisableCompression: true, // which would ask for what the client has not asked for
		IdleConnTimeout:    idleTime,
		// No ResponseHeaderTimeout: the API server says in each request how long it waits.
		ExpectContinueTimeout:  expectTime,
		MaxResponseHeaderBytes: maxAnswerHeaderBytes,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: streamWindow, SendPingTimeout: idleTime},
	}
	return t
}

func protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true) // an engine can be replaced by one that speaks it
	p.SetHTTP2(true)
	return &p
}

func (t *transport) connect(ctx context.Context) (net.Conn, error) {
	nc, err := t.dial(ctx)
	if err == nil {
		tc, ok := nc.(*tls.Conn)
		t.isHTTP2.Store(ok && tc.ConnectionState().NegotiatedProtocol == "h2")
	}
	return nc, err
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	if req.Body != nil {
		req.Body = &x.body // without GetBody nothing is sent again of which some was read
	}
	res, err := t.send(req, x)
	if err == nil && !isAnswer(res) {
		_ = res.Body.Close()
		res, err = nil, fmt.Errorf("the answer has the unexpected status %d", res.StatusCode)
	}
	x.unanswered = err != nil && !errors.Is(err, errMalformed)
	if failure := x.body.failure(); err != nil && failure != nil {
		return nil, failure // which was the cause
	}
	return res, err
}

// isAnswer reports whether the status of res can be passed on. None is below 100, and no
// protocol changes unasked.
func isAnswer(res *http.Response) bool {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return res.Request.Header.Get("Upgrade") != ""
	}
	return res.StatusCode >= http.StatusOK
}

func (t *transport) send(req *http.Request, x *exchange) (*http.Response, error) {
	if t.isHTTP2.Load() {
		return t.http2.RoundTrip(req)
	}
	s := &sending{req: req, body: &x.body}
	defer s.release()
	for {
		c, err := t.take(req.Context())
		if err != nil {
			return nil, err
		}
		if c == nil {
			if read := s.first[s.head:]; len(read) > 0 { // for a connection that was gone
				req.Body = struct {
					io.Reader
					io.Closer
				}{io.MultiReader(bytes.NewReader(bytes.Clone(read)), &x.body), &x.body}
			}
			return t.http2.RoundTrip(req)
		}
		res, err := c.roundTrip(s)
		if !errors.Is(err, errUnwritten) {
			return res, err
		}
	}
}

// take returns the idle connection that was used last, or a new one. nil: the engine
// wants HTTP/2.
func (t *transport) take(ctx context.Context) (*conn, error) {
	t.mu.Lock()
	if last := len(t.idle) - 1; last >= 0 {
		c := t.idle[last]
		t.idle[last] = nil
		t.idle = t.idle[:last]
		t.mu.Unlock()
		return c, nil
	}
	t.mu.Unlock()
	nc, err := t.connect(ctx)
	if err != nil {
		return nil, err
	}
	if t.isHTTP2.Load() {
		return nil, nc.Close() // nothing was sent on it
	}
	return newConn(nc, t), nil
}

// put keeps c for the next request.
func (t *transport) put(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle) == idleConnections {
		c.socket.Close() // without a goodbye, which would take time
		return
	}
	c.since = time.Now()
	t.idle = append(t.idle, c)
	if t.janitor == nil {
		t.janitor = time.AfterFunc(idleTime, t.expire)
	}
}

// expire closes the connections that have been idle for long.
func (t *transport) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.janitor = nil
	for len(t.idle) > 0 {
		left := idleTime - time.Since(t.idle[0].since)
		if left > 0 {
			t.janitor = time.AfterFunc(left, t.expire)
			return
		}
		t.idle[0].socket.Close()
		t.idle = append(t.idle[:0], t.idle[1:]...)
	}
}

// close closes the connections that no request uses.
func (t *transport) close() {
	t.http2.CloseIdleConnections()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.idle {
		c.socket.Close()
	}
	t.idle = nil
}
