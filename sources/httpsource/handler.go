package httpsource

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// commitWait is how long a client waits until its events are durable. OPA gives up
	// after 10 seconds unless told otherwise, and kube-apiserver after 30.
	commitWait = 5 * time.Second
	// answerWait is how long a client may take over the answer, or over the rest of a
	// body that nobody wants.
	answerWait = 5 * time.Second
	// maxIgnored bounds how much of such a body is read, so that the connection can be
	// used again.
	maxIgnored = 1 << 20
)

var errLate = fmt.Errorf("not durable within %v, as the queue is full or the disk slow: send it again", commitWait)

// ServeHTTP answers one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handlers.Add(1)
	defer s.handlers.Done()
	control := http.NewResponseController(w)
	// It may be that of the answer before, on the same connection. These calls fail only
	// on a connection that is closed, and so does what they are for.
	_ = control.SetWriteDeadline(time.Time{})
	err := s.serve(w, r)
	_ = control.SetWriteDeadline(time.Now().Add(answerWait))
	s.answer(w, r, err)
	if err != nil {
		// The server may read what is left of the body.
		_ = control.SetReadDeadline(time.Now().Add(answerWait))
	}
}

// serve does what the request asks for. The error is a refusal, or why its events are
// not durable yet.
func (s *server) serve(w http.ResponseWriter, r *http.Request) error {
	if err := s.authorize(r); err != nil {
		return err
	}
	p := &s.protocol
	ignored := p.Ignores != nil && p.Ignores(r.URL.Path)
	switch {
	case !ignored && !p.Accepts(r.URL.Path):
		return refuse(http.StatusNotFound, "nothing is taken at %.128q", r.URL.Path)
	case r.Method != http.MethodPost:
		return refuse(http.StatusMethodNotAllowed, "method %.16q is not allowed: only POST is", r.Method)
	}
	if !ignored {
		err := s.take(w, r)
		if err == nil {
			s.troubles.accepted(peerOf(r))
		}
		return err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(answerWait))
	_, _ = io.CopyN(io.Discard, r.Body, maxIgnored) // whatever comes of it
	return nil
}

// authorize checks the token, which is read at each request: a new one is valid at once.
func (s *server) authorize(r *http.Request) error {
	if s.token == "" {
		return nil
	}
	want, err := s.token.Read()
	s.troubles.token(err)
	if err != nil {
		return refuse(http.StatusServiceUnavailable, "docket cannot tell whether the token is right: see its log")
	}
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Of equal length, so that the time says nothing of that of the token either.
	a, b := sha256.Sum256([]byte(want)), sha256.Sum256([]byte(strings.TrimSpace(got)))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return refuse(http.StatusUnauthorized, "the bearer token is missing or wrong")
	}
	return nil
}

// take stores the events of the body, and returns once all of them are durable.
func (s *server) take(w http.ResponseWriter, r *http.Request) error {
	body, err := s.openBody(w, r)
	if err != nil {
		return err
	}
	defer s.closeBody(body)
	chunk := s.chunks.Get().(*[chunkBytes]byte)
	defer s.chunks.Put(chunk)
	cut := newCutter(body, s.protocol.Member, s.limit, chunk[:])
	var through uint64
	for {
		b := s.batches.Get().(*batch)
		b.reset()
		end := b.fill(cut, &s.protocol)
		switch {
		case end == nil:
			err = s.put(r.Context(), b, &through, false)
		case errors.Is(end, io.EOF):
			return s.put(r.Context(), b, &through, true)
		default:
			s.batches.Put(b)
			return body.explain(end)
		}
		if err != nil {
			return err
		}
	}
}

// put hands a batch to the committer, and through is then the number that its events and
// those before are durable with. After the last batch of a body it waits for that.
func (s *server) put(ctx context.Context, b *batch, through *uint64, isLast bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.commitWait, errLate)
	defer cancel()
	if !b.isEmpty() {
		number, err := s.committer.put(ctx, b)
		if err != nil {
			return err
		}
		*through = max(*through, number)
	}
	s.batches.Put(b)
	if !isLast {
		return nil
	}
	return s.committer.wait(ctx, *through)
}

// answer tells the client what became of its request.
func (s *server) answer(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	status, header := http.StatusServiceUnavailable, w.Header()
	if refused, ok := errors.AsType[refusal](err); ok {
		status = refused.status
		header.Set("Connection", "close") // what is left of the body is of no use
		if r.Method == http.MethodPost {  // others only look around
			s.troubles.refused(peerOf(r), r.URL.Path, refused)
		}
	}
	switch status {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		header.Set("Allow", http.MethodPost)
	case http.StatusUnsupportedMediaType:
		header.Set("Accept-Encoding", "gzip")
	}
	http.Error(w, err.Error(), status)
}

// peerOf is the host that a request comes from, without the port, which is another for
// each connection.
func peerOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
