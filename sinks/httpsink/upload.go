package httpsink

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/docket-export/docket/sinks"
)

// errNotWhole is that of a 2xx whose request has not been sent to its end.
var errNotWhole = errors.New("before it had read the whole request: let the receiver read the body first")

// wholeRequests gives out an answer of status 2xx only when the whole body of
// its request has been written. A receiver may answer while it still reads, and
// whoever ends the exchange then, because the answer is complete, cuts the body
// short: no answer to it can be an acceptance of what was not sent.
type wholeRequests struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (w wholeRequests) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil {
		return w.Transport.RoundTrip(req)
	}
	u := &upload{size: req.ContentLength, result: make(chan httptrace.WroteRequestInfo, 1)}
	res, err := w.Transport.RoundTrip(u.watch(req))
	if err != nil || !isSuccess(res.StatusCode) {
		return res, err
	}
	if err := u.wait(req.Context()); err != nil {
		_ = res.Body.Close() // the exchange has failed already
		return nil, sinks.Failf(sinks.Transient, "answered %s %w", statusText(res.StatusCode), errNotWhole)
	}
	return res, nil
}

// upload is the way of one request body to the socket. net/http may try more
// than once, one try after the other; the last one counts.
type upload struct {
	size   int64
	read   atomic.Int64                    // by net/http, in this try
	result chan httptrace.WroteRequestInfo // of this try; holds one
}

// watch returns req with u as its witness.
func (u *upload) watch(req *http.Request) *http.Request {
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { u.begin() },
		WroteRequest: u.end,
	}))
	req.Body = &uploadBody{req.Body, u}
	if again := req.GetBody; again != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			u.read.Store(0)
			return &uploadBody{body, u}, err
		}
	}
	return req
}

// begin forgets the try before.
func (u *upload) begin() {
	select {
	case <-u.result:
	default:
	}
}

// end keeps the first that is said of the end of this try. Without an error it
// is still none of a body that was not asked for: an answer in place of 100
// Continue.
func (u *upload) end(info httptrace.WroteRequestInfo) {
	if info.Err == nil && u.read.Load() < u.size {
		info.Err = errNotWhole
	}
	select {
	case u.result <- info:
	default:
	}
}

// wait returns nil when the request has been written whole.
func (u *upload) wait(ctx context.Context) error {
	select {
	case info := <-u.result:
		return info.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// uploadBody is a request body that is watched.
type uploadBody struct {
	io.ReadCloser
	upload *upload
}

func (b *uploadBody) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	b.upload.read.Add(int64(n))
	return n, err
}

// WriteTo implements io.WriterTo.
func (b *uploadBody) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, b.ReadCloser)
	b.upload.read.Add(n)
	return n, err
}

// wideConn is a connection that writes a body in one piece. net/http would copy it 32 KB at a
// time, and on loopback a delivery spends most of its time in those copies and system calls.
// Connections with TLS cut bodies into records of 16 KB whatever they are given.
type wideConn struct{ net.Conn }

// ReadFrom implements io.ReaderFrom, which net/http uses for bodies: it hands over an
// io.LimitedReader of the body, as it does for the sake of files. Its limit is the end of the body.
func (c wideConn) ReadFrom(r io.Reader) (int64, error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		if body, ok := limited.R.(*uploadBody); ok {
			n, err := body.WriteTo(c.Conn)
			limited.N -= n
			return n, err
		}
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r) // not the ReadFrom of c
}

// widely has dial make wide connections.
func widely(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return wideConn{conn}, nil
	}
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)
