package httpsink

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

var errReleased = errors.New("request body read after its attempt has ended")

// payload lends a buffer to the requests of one attempt.
//
// net/http may go on reading a request body after it has returned an answer or
// an error, and only promises to close it some time later. Whoever owns the buffer
// wants it back at once, so every read goes through the lock and release ends the
// loan: a late read gets an error instead of the next batch's bytes.
//
// A connection may write from the buffer itself, without the lock, for a socket may
// block. release cuts such a write short, and waits for its end.
type payload struct {
	mu      sync.Mutex
	data    []byte     // guarded by mu; nil once released
	writers []net.Conn // that write from data now; guarded by mu
	idle    sync.Cond  // of mu: there are no writers any more
}

func newPayload(data []byte) *payload {
	p := &payload{data: data}
	p.idle.L = &p.mu
	return p
}

// release returns when no read or write is under way; none will see the data again.
func (p *payload) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data = nil
	for _, conn := range p.writers {
		// It fails only on a closed connection, and so does the write. The connection is
		// of no use any more: what it carries is not whole.
		_ = conn.SetWriteDeadline(time.Unix(1, 0))
	}
	for len(p.writers) > 0 {
		p.idle.Wait()
	}
}

// body returns a new reader of the whole payload.
func (p *payload) body() io.ReadCloser { return &payloadReader{payload: p} }

// again is body as http.Request.GetBody wants it.
func (p *payload) again() (io.ReadCloser, error) { return p.body(), nil }

// payloadReader is no io.WriterTo on purpose: whoever gets its bytes might keep them.
type payloadReader struct {
	payload *payload
	offset  int
}

func (r *payloadReader) Read(to []byte) (int, error) {
	r.payload.mu.Lock()
	defer r.payload.mu.Unlock()
	if r.payload.data == nil {
		return 0, errReleased
	}
	n := copy(to, r.payload.data[r.offset:])
	r.offset += n
	if n == 0 && len(to) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *payloadReader) Close() error { return nil }

// writeTo writes the rest, at most limit bytes of it, to conn, which must not keep
// them. After an error conn has to be closed.
func (r *payloadReader) writeTo(conn net.Conn, limit int64) (int64, error) {
	rest, err := r.payload.lend(conn)
	if err != nil {
		return 0, err
	}
	rest = rest[r.offset:]
	n, err := conn.Write(rest[:min(limit, int64(len(rest)))])
	r.offset += n
	if r.payload.giveBack(conn) {
		err = errReleased
	}
	return int64(n), err
}

// lend lends the data to conn until giveBack.
func (p *payload) lend(conn net.Conn) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.data == nil {
		return nil, errReleased
	}
	p.writers = append(p.writers, conn)
	return p.data, nil
}

// giveBack ends the loan to conn, and reports whether it was cut short.
func (p *payload) giveBack(conn net.Conn) (cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writers = slices.DeleteFunc(p.writers, func(c net.Conn) bool { return c == conn })
	p.idle.Broadcast()
	return p.data == nil
}
