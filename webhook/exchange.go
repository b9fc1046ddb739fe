package webhook

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/decision"
)

// exchange is one review and its answer, as they pass.
type exchange struct {
	h        *handler
	path     string
	start    time.Time
	duration time.Duration
	body     body
	request  half
	response half
	found    found

	status   int   // of the answer; 0: none was given
	length   int64 // that the answer should have; -1: any
	written  int64
	failure  string // why the answer is none to the client; empty: it may be one
	hijacked bool
	cut      bool // a piece of the answer could not be written

	// mu is held while a piece of the request is taken: a proxy may read the request on
	// another goroutine, even when the handler has returned.
	mu   sync.Mutex
	over atomic.Bool // what passes from now on belongs to no one; set with mu held

	lost      atomic.Bool       // there was no memory, or a fault: release counts it
	logged    bool              // its records were given to the client
	decision  decision.Decision // set with the records
	notReview bool
}

// body is that of the request.
type body struct {
	io.ReadCloser
	x      *exchange
	ended  bool // guarded by x.mu, as broken
	broken bool // reading has failed
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.x.read(p[:n], err)
	return n, err
}

// read takes a piece of the request.
func (x *exchange) read(p []byte, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over.Load() {
		return
	}
	x.take(&x.request, p)
	if err == io.EOF { //nolint:errorlint // readers return it as it is
		x.body.ended = true
	} else if err != nil {
		x.body.broken = true
	}
}

// stop ends the exchange, after a piece that is being taken.
func (x *exchange) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over.Store(true)
}

// take takes a piece of one half.
func (x *exchange) take(part *half, p []byte) {
	defer x.h.guard(x)
	if part.reader == nil || part.unread != "" || len(p) == 0 || x.lost.Load() {
		return
	}
	_, _ = part.reader.Write(p) // which keeps what it has room for
	kept := part.reader.Size()
	if kept > part.kept && !x.h.memory.grow(kept-part.kept) {
		x.h.memory.grow(-part.kept) // for others: this one has no record
		*part = half{unread: "did not fit into memory"}
		x.lose()
		return
	}
	part.kept = max(part.kept, kept)
}

// lose has x counted as lost in the end, unless its records are with the client.
func (x *exchange) lose() {
	if !x.logged {
		x.lost.Store(true)
	}
}

// size is what is kept of x.
func (x *exchange) size() int {
	const own = 1 << 10 // itself, and what its records share
	return own + x.request.kept + x.response.kept + x.found.size()
}

// half is one direction of an exchange.
type half struct {
	reader *decision.ReviewReader
	kept   int // memory that is counted
	// unread is why a record cannot be made of it; empty: it can.
	unread string
}

// open begins a half that has a content encoding.
func (p *half) open(h *handler, encoding string) {
	if p.reader, _ = h.readers.Get().(*decision.ReviewReader); p.reader == nil {
		p.reader = decision.NewReviewReader(h.Include...)
	}
	if encoding != "" && !strings.EqualFold(encoding, "identity") {
		p.unread = "has a content encoding"
	}
}

// answer is the way of an answer that leaves as it comes.
type answer struct {
	http.ResponseWriter
	x *exchange
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.x.begins(status, a.Header())
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.x.begins(http.StatusOK, a.Header())
	n, err := a.ResponseWriter.Write(p)
	a.x.wrote(p[:n], err)
	return n, err
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is for http.ResponseController.
func (a *answer) FlushError() error {
	a.x.begins(http.StatusOK, a.Header())
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker. It fails where the connection cannot be hijacked.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	a.x.hijacked = a.x.hijacked || err == nil
	return conn, rw, err
}

// begins notes how the answer begins, unless it has begun or is not the last one.
func (x *exchange) begins(status int, header http.Header) {
	if x.status != 0 || status < http.StatusOK && status != http.StatusSwitchingProtocols || x.over.Load() {
		return
	}
	x.status, x.length = status, -1
	if text := header.Get("Content-Length"); text != "" {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			x.length = n
		}
	}
	x.response.open(x.h, header.Get("Content-Encoding"))
}

// wrote takes a piece of the answer that has left.
func (x *exchange) wrote(p []byte, err error) {
	if x.over.Load() {
		return
	}
	x.cut = x.cut || err != nil
	x.written += int64(len(p))
	x.take(&x.response, p)
}

// end notes what the handler has made of x. ctx is that of the request, p what it has
// panicked with.
func (x *exchange) end(ctx context.Context, completed bool, p any) {
	x.duration = time.Since(x.start)
	whole := x.length >= 0 && x.written == x.length
	switch {
	case ctx.Err() != nil && !(completed && whole): // else it has left in time
		x.failure = "the client went away before the answer"
	case p == any(http.ErrAbortHandler):
		x.failure = "the answer was broken off"
	case !completed:
		x.failure = "the handler panicked"
	case x.hijacked:
		x.failure = "the handler took over the connection"
	case x.cut || x.status != 0 && x.length > x.written:
		x.failure = "the answer was cut off"
	}
}
