package httpsink

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/docket-export/docket/sinks"
)

const (
	// An answer is read to its end, so that its connection can be used again,
	// but only this far: a larger answer costs the connection, not the memory.
	maxAnswer = 64 << 10
	// An answer that trickles must not hold up the next batch.
	drainTime = time.Second
	// As much of an answer as a person reads in a log line.
	maxExcerpt = 512
	// A destination may ask for more, but a typing error in its answer must
	// not silence the sink for days.
	maxRetryAfter = time.Hour
)

// kindOf says what a status other than 2xx means for the batch:
//
//	3xx                              Misconfigured: the url is not the final one
//	400 409 413 422, other 4xx       Rejected: these records will not be taken
//	401 402 403 407                  Misconfigured: credentials, permission, plan
//	404 405 410 414 421              Misconfigured: the url is not the receiver's
//	406 411 415 417 426 428 431      Misconfigured: it wants another kind of request
//	408 425                          Transient
//	429                              Throttled, for Retry-After if there is one
//	503 with Retry-After             Throttled
//	other 5xx, anything else         Transient
//
// What is Misconfigured would be said of any record, so setting records aside
// would empty the queue into the dead letters; what is Rejected may be the fault
// of a single record. 409 is a receiver that has its own idea of identity.
func kindOf(status int, retryAfter string) sinks.Kind {
	switch status {
	case http.StatusTooManyRequests:
		return sinks.Throttled
	case http.StatusServiceUnavailable:
		if retryAfter != "" {
			return sinks.Throttled
		}
		return sinks.Transient
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return sinks.Transient
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusRequestURITooLong, http.StatusMisdirectedRequest,
		http.StatusNotAcceptable, http.StatusLengthRequired, http.StatusUnsupportedMediaType, http.StatusExpectationFailed,
		http.StatusUpgradeRequired, http.StatusPreconditionRequired, http.StatusRequestHeaderFieldsTooLarge:
		return sinks.Misconfigured
	}
	switch {
	case status >= 300 && status < 400:
		return sinks.Misconfigured
	case status >= 400 && status < 500:
		return sinks.Rejected
	}
	return sinks.Transient
}

// failure is what the answer res, whose body began with body, says about the
// batch. secrets are removed from what it quotes.
func failure(res *http.Response, body []byte, secrets []string) error {
	text := fmt.Sprintf("post to %s: answered %s", res.Request.URL.Host, statusText(res))
	if quoted := excerpt(body, secrets); quoted != "" {
		text += ": " + quoted
	}
	retryAfter := res.Header.Get("Retry-After")
	f := &sinks.Failure{Kind: kindOf(res.StatusCode, retryAfter)}
	switch {
	case f.Kind == sinks.Throttled:
		f.After = parseRetryAfter(retryAfter, time.Now())
	case res.StatusCode >= 300 && res.StatusCode < 400:
		text += redirectHint(res)
	case wantsHTTPS(res, body):
		f.Kind = sinks.Misconfigured
		text += ": use https:// in http.url"
	case f.Kind == sinks.Misconfigured:
		text += hint(res.StatusCode)
	}
	f.Err = errors.New(text)
	return f
}

// statusText is the code with the standard phrase: the phrase on the wire is
// free text of the server.
func statusText(res *http.Response) string {
	return strings.TrimSpace(strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode))
}

func hint(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ": check http.bearerTokenFile, the client certificate and what they permit"
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return ": check http.url"
	case http.StatusUnsupportedMediaType, http.StatusNotAcceptable:
		return ": the url must take application/x-ndjson"
	case http.StatusProxyAuthRequired:
		return ": check the proxy's credentials"
	}
	return ""
}

// redirectHint names where a redirect leads, without credentials, path or query.
func redirectHint(res *http.Response) string {
	to, err := res.Location()
	switch {
	case err != nil:
		return ": check http.url"
	case sameOrigin(to, res.Request.URL):
		return ": set http.url to the final path on this server; only 307 and 308 keep the batch"
	}
	origin := url.URL{Scheme: to.Scheme, Host: to.Host}
	return fmt.Sprintf(": redirects to %s: set http.url to the final address if that is right", origin.String())
}

// wantsHTTPS recognises the answers of common servers to plain HTTP on their
// HTTPS port. They are a 400, and taken as that they would set aside record
// after record for a missing letter in the url. Nothing but the text tells.
func wantsHTTPS(res *http.Response, body []byte) bool {
	if res.StatusCode != http.StatusBadRequest || res.Request.URL.Scheme != "http" {
		return false
	}
	for _, phrase := range []string{
		"Client sent an HTTP request to an HTTPS server", // Go
		"The plain HTTP request was sent to HTTPS port",  // nginx
		"speaking plain HTTP to an SSL-enabled server",   // Apache httpd
		"This combination of host and port requires TLS", // Tomcat
	} {
		if bytes.Contains(body, []byte(phrase)) {
			return true
		}
	}
	return false
}

// parseRetryAfter reads seconds or an HTTP date. What cannot be read, or lies
// in the past, is no wait at all: the delivery loop backs off by itself.
func parseRetryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// drain reads what is left of an answer within its bounds and returns it. An
// error is of no interest: the status has been read, and it decides.
func drain(res *http.Response, abort func()) []byte {
	timer := time.AfterFunc(drainTime, abort)
	defer timer.Stop()
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return body
}

// excerpt is the beginning of an answer as one printable line without secrets.
func excerpt(body []byte, secrets []string) string {
	text := string(body)
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "[redacted]")
		}
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxExcerpt {
		return text
	}
	const more = "..."
	return strings.ToValidUTF8(text[:maxExcerpt-len(more)], "") + more
}
