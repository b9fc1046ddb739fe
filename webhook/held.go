package webhook

import (
	"bufio"
	"maps"
	"net"
	"net/http"
)

// held is an answer that waits until it may leave. Nothing of it touches the way out
// before: neither status nor header.
type held struct {
	x      *exchange
	way    http.ResponseWriter
	strict bool

	header  http.Header // the handler's
	status  int         // 0: none was written
	begin   http.Header // as it was when the status was written
	body    []byte
	flushed int  // how much of body there was at the first flush, from which the server takes the Content-Type; -1: none
	passing bool // too large to be held: it leaves as it comes
	dropped bool // too large to be held, and it must not leave
}

func newHeld(way http.ResponseWriter, x *exchange, strict bool) *held {
	return &held{x: x, way: way, strict: strict, header: way.Header().Clone(), flushed: -1}
}

// Unwrap is for http.ResponseController: deadlines apply to the connection.
func (a *held) Unwrap() http.ResponseWriter { return a.way }

// Header implements http.ResponseWriter.
func (a *held) Header() http.Header {
	if a.passing {
		return a.way.Header()
	}
	return a.header
}

// WriteHeader implements http.ResponseWriter.
func (a *held) WriteHeader(status int) {
	switch {
	case a.passing:
		a.way.WriteHeader(status)
	case status < http.StatusOK: // informational: it would leave before the answer
	case a.status == 0:
		a.status, a.begin = status, a.header.Clone()
		a.x.begins(status, a.header)
	}
}

// Write implements http.ResponseWriter.
func (a *held) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.hold(p)
	if a.passing {
		n, err := a.way.Write(p)
		a.x.wrote(p[:n], err)
		return n, err
	}
	a.x.wrote(p, nil)
	return len(p), nil
}

// hold keeps p if there is room.
func (a *held) hold(p []byte) {
	switch {
	case a.passing || a.dropped:
	case len(a.body)+len(p) <= maxHeld && a.grow(len(p)):
		a.body = append(a.body, p...)
	case a.strict:
		a.dropped = true
	default:
		a.release()
		a.passing = true
	}
}

// grow makes room for n more bytes, if that is allowed.
func (a *held) grow(n int) bool {
	need := len(a.body) + n
	if need <= cap(a.body) {
		return true
	}
	room := max(need, 2*cap(a.body), 1<<10)
	if !a.x.h.memory.grow(room - cap(a.body)) {
		return false
	}
	a.body = append(make([]byte, 0, room), a.body...)
	return true
}

// Flush implements http.Flusher.
func (a *held) Flush() { _ = a.FlushError() }

// FlushError is for http.ResponseController. What is held is flushed when it leaves.
func (a *held) FlushError() error {
	a.WriteHeader(http.StatusOK)
	if a.passing {
		return http.NewResponseController(a.way).Flush()
	}
	if a.flushed < 0 {
		a.flushed = len(a.body)
	}
	return nil
}

// Hijack implements http.Hijacker: a connection that is not ours cannot be held.
func (a *held) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// release lets the answer leave as it was given.
func (a *held) release() {
	if a.status != 0 {
		replace(a.way.Header(), a.begin)
		a.way.WriteHeader(a.status)
	}
	rest := a.body
	if a.flushed >= 0 {
		_, _ = a.way.Write(rest[:a.flushed])
		_ = http.NewResponseController(a.way).Flush()
		rest = rest[a.flushed:]
	}
	if len(rest) > 0 {
		_, _ = a.way.Write(rest)
	}
	replace(a.way.Header(), a.header) // trailers, or that of an empty answer
	a.free()
}

// refuse answers 500 instead.
func (a *held) refuse() {
	http.Error(a.way, "docket: the decision could not be recorded", http.StatusInternalServerError)
	a.free()
}

func (a *held) free() {
	a.x.h.memory.grow(-cap(a.body))
	a.body = nil
}

func replace(header, by http.Header) {
	clear(header)
	maps.Copy(header, by)
}
