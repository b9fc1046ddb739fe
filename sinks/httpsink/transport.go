package httpsink

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktls"
)

// tlsSection is where the configuration says how to speak TLS.
const tlsSection = "http.tls"

// maxRedirects is how often a server may send a batch on within itself: to a
// path with a slash, to a shard. More is a loop.
const maxRedirects = 3

// handshakeTime bounds the handshake that looks for the reason of a failure.
const handshakeTime = 2 * time.Second

// newTransport returns a transport of the sink's own, with the proxy that the
// environment names and HTTP/2 where the server speaks it.
func newTransport(t *config.TLS) (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.OnProxyConnectResponse = checkProxy
	transport.MaxResponseHeaderBytes = maxAnswer
	transport.DisableCompression = true // an answer is an acknowledgement, not a download
	if t != nil {
		tlsConfig, err := sinktls.Client(*t, tlsSection)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = tlsConfig
	}
	return transport, nil
}

// stayOnServer follows a redirect that keeps server, method and body (307 and
// 308). Any other becomes the answer: a batch and its token go nowhere but to
// the server that was configured.
func stayOnServer(next *http.Request, via []*http.Request) error {
	if next.Method != http.MethodPost || len(via) > maxRedirects || !sameOrigin(next.URL, via[0].URL) {
		return http.ErrUseLastResponse
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// checkProxy tells a proxy that wants credentials from one that has trouble;
// net/http makes the same nameless error of both.
func checkProxy(_ context.Context, proxy *url.URL, _ *http.Request, res *http.Response) error {
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired:
		return sinks.Failf(sinks.Misconfigured, "proxy %s answered %s: check the proxy's credentials and what it permits", proxy.Host, statusText(res))
	}
	return nil
}

// unanswered classifies the error of an attempt that got no answer. The records
// may have been accepted all the same; only the receiver knows.
func (s *sink) unanswered(ctx, attempt context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if attempt.Err() != nil {
		return sinks.Failf(sinks.Transient, "post to %s: no answer within %s", s.url.Host, s.config.Timeout)
	}
	err = withoutURL(err)
	if f, ok := errors.AsType[*sinks.Failure](err); ok {
		return sinks.Failf(f.Kind, "post to %s: %w", s.url.Host, err)
	}
	hint := tlsHint(err)
	if hint == "" {
		if refusal := s.tlsRefusal(attempt); refusal != nil {
			err, hint = refusal, tlsHint(refusal)
		}
	}
	if hint == "" {
		return sinks.Failf(sinks.Transient, "post to %s: %w", s.url.Host, err)
	}
	return sinks.Failf(sinks.Misconfigured, "post to %s: %w: %s", s.url.Host, err, hint)
}

// withoutURL is err without the URL that net/http puts before it.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// tlsRefusal shakes hands with the server once more and returns the TLS error
// that this ends in, if any. With TLS 1.3 a server refuses a client certificate,
// or the lack of one, after the handshake; the HTTP/2 of net/http then often
// says only that its connection could not be established.
func (s *sink) tlsRefusal(ctx context.Context) error {
	transport := s.client.Transport.(*http.Transport)
	if proxy, err := transport.Proxy(&http.Request{URL: s.url}); s.url.Scheme != "https" || proxy != nil || err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{}}
	if transport.TLSClientConfig != nil {
		dialer.Config = transport.TLSClientConfig.Clone()
	}
	dialer.Config.NextProtos = []string{"h2"} // with which the server speaks first
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(s.url.Hostname(), portOf(s.url)))
	if err == nil {
		defer conn.Close()
		deadline, _ := ctx.Deadline()
		_ = conn.SetReadDeadline(deadline) // it fails only on a closed connection, and so does the read
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil || tlsHint(err) == "" {
		return nil
	}
	return err
}

// tlsHint says what to do about a TLS error that stays until somebody acts,
// and is empty for any other error.
func tlsHint(err error) string {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "use http:// in http.url, or the port that speaks TLS"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the port does not speak TLS: check http.url"
	}
	return sinktls.Hint(err, tlsSection, "server")
}
