package httpsink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktls"
)

// unanswered classifies the error of a request that got no answer; attempt is
// the context that bounded it. What was sent may have been accepted all the same;
// only the receiver knows.
func (c *connection) unanswered(attempt context.Context, err error) error {
	if errors.Is(attempt.Err(), context.Canceled) {
		return attempt.Err()
	}
	if f, ok := errors.AsType[*sinks.Failure](err); ok {
		return sinks.Failf(f.Kind, "%s %s: %w", c.action, c.url.Host, bare(err))
	}
	if attempt.Err() != nil {
		return sinks.Failf(sinks.Transient, "%s %s: no answer within %s", c.action, c.url.Host, c.timeout)
	}
	err = bare(err)
	hint := c.tlsHint(err)
	if hint != "" {
		return sinks.Failf(sinks.Misconfigured, "%s %s: %w: %s", c.action, c.url.Host, err, hint)
	}
	if hungUp(err) {
		return sinks.Failf(sinks.Transient, "%s %s: the connection was closed before an answer came", c.action, c.url.Host)
	}
	if hint = c.networkHint(err); hint != "" {
		return sinks.Failf(sinks.Transient, "%s %s: %w: %s", c.action, c.url.Host, err, hint)
	}
	return sinks.Failf(sinks.Transient, "%s %s: %w", c.action, c.url.Host, err)
}

// bare is err without the URL that net/http puts before it, which may hold a
// secret, and without our own port, which would make a new error of each.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op == "proxyconnect" {
		return err
	}
	if inner, ok := errors.AsType[*net.OpError](op.Err); ok {
		op = inner
	}
	peerOnly := *op
	peerOnly.Source = nil
	return &peerOnly
}

// hungUp reports whether err is that of a connection which the server has ended.
func hungUp(err error) bool {
	// net/http has no name for this one: the server ended a connection of HTTP/2 before any request.
	return strings.HasSuffix(err.Error(), "client conn could not be established") || slices.ContainsFunc([]error{
		syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF,
		net.ErrClosed, // by net/http, which saw the end first where it reads
	}, func(end error) bool { return errors.Is(err, end) })
}

// networkHint says what to do about an error of the network that may pass by
// itself, and may not.
func (c *connection) networkHint(err error) string {
	op, isOp := errors.AsType[*net.OpError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case isOp && op.Op == "proxyconnect":
		return "check the proxy in HTTPS_PROXY and HTTP_PROXY; NO_PROXY lists the hosts that need none"
	case isDNS && dns.IsNotFound:
		return "check the host in " + c.urlKey + ", and whether this machine's name servers know it"
	case isDNS:
		return "check this machine's name servers"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: check host and port in " + c.urlKey + ", and that the server runs"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "check the host in " + c.urlKey + ", routes and firewalls"
	}
	return ""
}

// tlsHint says what to do about a TLS error that stays until somebody acts,
// and is empty for any other error.
func (c *connection) tlsHint(err error) string {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "use http:// in " + c.urlKey + ", or the port that speaks TLS"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the port does not speak TLS: check " + c.urlKey
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "check the host in " + c.urlKey + ", or set " + c.tlsKey + ".serverName to a name that the certificate has"
	}
	return sinktls.Hint(err, c.tlsKey, "server")
}
