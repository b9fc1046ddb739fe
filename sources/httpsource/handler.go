package httpsource

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/docket-export/docket/internal/fairconn"
	"github.com/docket-export/docket/internal/ownhost"
	"github.com/docket-export/docket/sources/identity"
)

const (
	// commitWait is how long a client waits until its events are durable. OPA gives up
	// after 10 seconds unless told otherwise, and kube-apiserver after 30.
	commitWait = 5 * time.Second
	// placeWait is how long a body waits for its place before.
	placeWait = 4 * time.Second
	// answerWait is how long a client may take over the answer, and before that over the
	// rest of a body that nobody wants.
	answerWait = 5 * time.Second
	// maxEvents bounds the events of an upload: of more, not all would be recognised when
	// the upload comes again.
	maxEvents = maxIDs
	// maxUnfit bounds the events of an upload that are no records, each of which is kept
	// with the refused lines. An engine sends none.
	maxUnfit = 100
	// maxIgnored bounds how much of such a body is read, so that the connection can be
	// used again.
	maxIgnored = 1 << 20
)

var errLate = fmt.Errorf("not durable within %v, because the queue is full or the disk is slow: send the body again", commitWait)

// ServeHTTP answers one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handlers.Add(1)
	defer s.handlers.Done()
	conn := fairconn.Of(r)
	conn.Identify(identityOf(r))
	defer conn.Rest()
	control := http.NewResponseController(w)
	// It may be that of the answer before, on the same connection. These calls fail only
	// on a connection that is closed, and so does what they are for.
	_ = control.SetWriteDeadline(time.Time{})
	err := s.serve(w, r)
	_ = control.SetWriteDeadline(time.Now().Add(2 * s.answerWait))
	if err != nil {
		// The server may read what is left of the body, before it answers.
		_ = control.SetReadDeadline(time.Now().Add(s.answerWait))
	}
	defer conn.Work()()
	s.answer(w, r, err)
}

// identityOf says who has sent r, as far as a certificate proves it.
func identityOf(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return identity.Anyone
	}
	return identity.OfCertificate(r.TLS.VerifiedChains[0])
}

// serve does what the request asks for. The error is a refusal, or why its events are
// not durable yet.
func (s *server) serve(w http.ResponseWriter, r *http.Request) error {
	if err := s.checkSender(r); err != nil {
		return err
	}
	if err := s.authorize(r); err != nil {
		return err
	}
	p := &s.protocol
	ignored := p.Ignores != nil && p.Ignores(r.URL.Path)
	switch {
	case !ignored && !p.Accepts(r.URL.Path):
		return refuse(http.StatusNotFound, "unknown path %.128q", r.URL.Path)
	case r.Method != http.MethodPost:
		return refuse(http.StatusMethodNotAllowed, "method %.16q is not allowed: only POST is", r.Method)
	}
	if err := checkType(r); err != nil {
		return err
	}
	if !ignored {
		err := s.receive(w, r)
		if err == nil {
			s.failures.accepted(peerOf(r))
		}
		return err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.answerWait))
	_, _ = io.CopyN(io.Discard, r.Body, maxIgnored) // whatever comes of it
	return nil
}

// checkSender refuses a header that no engine sends, and what a page in a browser has sent. Where nothing but the address
// keeps others away, the request must name it too: a page can have its own name lead to
// a loopback address.
func (s *server) checkSender(r *http.Request) error {
	if len(r.Header) > maxFields {
		return refuse(http.StatusRequestHeaderFieldsTooLarge, "the header has more than %d fields", maxFields)
	}
	err := ownhost.CheckPage(r)
	if err == nil && s.token == "" && s.listener.tls == nil {
		err = ownhost.Check(r)
	}
	if foreign, ok := errors.AsType[*ownhost.Error](err); ok {
		return refuse(foreign.Status, "%s", foreign)
	}
	return err
}

// checkType refuses a body that says it is something else than JSON: a page can post a
// form or a text to any address. Who sends no type is no browser: one would have sent
// its Origin.
func checkType(r *http.Request) error {
	text := r.Header.Get("Content-Type")
	if text == "" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(text)
	if err != nil || kind != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "content type %.64q is not supported: send application/json", text)
	}
	return nil
}

// authorize checks the token, which is read at each request: a new one is valid at once.
func (s *server) authorize(r *http.Request) error {
	if s.token == "" {
		return nil
	}
	want, err := s.token.Read()
	s.failures.token(err)
	if err != nil {
		return refuse(http.StatusServiceUnavailable, "docket cannot check the token: see docket's log")
	}
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Of equal length, so that the time says nothing of that of the token either.
	a, b := sha256.Sum256([]byte(want)), sha256.Sum256([]byte(strings.TrimSpace(got)))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return refuse(http.StatusUnauthorized, "the bearer token is missing or wrong")
	}
	return nil
}

// receive stores the events of the body, and returns once all of them are durable.
func (s *server) receive(w http.ResponseWriter, r *http.Request) error {
	body, err := s.openBody(w, r)
	if err != nil {
		return err
	}
	defer body.close()
	cut := newCutter(body, s.protocol.Member, s.limit, make([]byte, chunkBytes))
	for isLast := false; !isLast; {
		b, end := s.fill(body, cut)
		isLast = errors.Is(end, io.EOF)
		if end != nil && !isLast {
			return body.explain(end)
		}
		if err := s.put(body, b, isLast); err != nil {
			return err
		}
	}
	return nil
}

// put hands a batch of the body to the committer. After the last one it waits until all
// of them are durable.
func (s *server) put(body *body, b *batch, isLast bool) error {
	defer body.conn.Work()()
	ctx, cancel := context.WithTimeoutCause(body.ctx, s.commitWait, errLate)
	defer cancel()
	if !b.isEmpty() {
		o, has, err := s.committer.put(ctx, b)
		if has {
			body.left = b
		}
		if err != nil {
			return err
		}
		o.through = max(o.through, body.last.through)
		body.last = o
	}
	body.held = 0
	if !isLast {
		return nil
	}
	return s.committer.wait(ctx, body.last)
}

// fill returns a batch that is full, or has the last events of the body: then there is
// an error, that of the cutter.
func (s *server) fill(body *body, cut *cutter) (b *batch, err error) {
	b = newBatch(body.peer)
	for err == nil && !b.isFull() {
		var isRecord bool
		if isRecord, err = b.addNext(cut, &s.protocol); err == nil {
			err = body.count(isRecord)
		}
	}
	return b, err
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
			s.failures.refused(peerOf(r), r.URL.Path, refused)
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
