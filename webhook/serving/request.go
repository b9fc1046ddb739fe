package serving

import (
	"io"
	"net/http"
	"time"
)

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	if s.goodbye.Load() {
		w.Header().Set("Connection", "close") // with HTTP/2 this sends GOAWAY
	}
	c := r.Context().Value(connKey{}).(*conn)
	b := &body{ReadCloser: r.Body, conn: c}
	c.listener.begin(c)
	defer c.listener.end(b)
	if r.ContentLength == 0 { // with HTTP/2 the body is not http.NoBody
		b.arrived()
	} else {
		// Both protocols of net/http can do this, and forget it when the body has ended.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.config.BodyTimeout))
		copied := *r
		copied.Body = b
		r = &copied
	}
	s.config.Handler.ServeHTTP(w, r)
}

// body is that of a request. It has to arrive within BodyTimeout, and until it has, its
// connection may have to give way to others.
type body struct {
	io.ReadCloser
	conn *conn

	whole, over bool // it has arrived, and was answered; guarded by conn.listener.mu
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.arrived()
	}
	return n, err
}

// arrived notes that nothing is still to come.
func (b *body) arrived() {
	l := b.conn.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if !b.whole && !b.over {
		b.whole = true
		b.conn.whole++
	}
}
