package httpsink

import (
	"errors"
	"io"
	"sync"
)

var errReleased = errors.New("request body read after its attempt has ended")

// payload lends a buffer of the sink to the requests of one attempt.
//
// net/http may go on reading a request body after it has returned an answer or
// an error, and only promises to close it some time later. The sink wants its
// buffer back at once, so every read goes through the lock and release ends the
// loan: a late read gets an error instead of the next batch's bytes.
type payload struct {
	mu   sync.Mutex
	data []byte // guarded by mu; nil once released
}

// release returns when no read is under way; none will see the data again.
func (p *payload) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data = nil
}

// body returns a new reader of the whole payload. It is a plain io.Reader on
// purpose: with WriterTo the lock would be held while a socket blocks.
func (p *payload) body() io.ReadCloser {
	return io.NopCloser(&payloadReader{payload: p})
}

// again is body as http.Request.GetBody wants it.
func (p *payload) again() (io.ReadCloser, error) { return p.body(), nil }

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
