package httpsink

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/sinks"
)

// A destination may ask for more, but a typing error in its answer must not
// silence the sink for days.
const maxRetryAfter = time.Hour

// kindOf says what a status other than 2xx means for the batch, where the
// encoding's protocol has no say of its own:
//
//	3xx                              Misconfigured: the url is not the final one
//	400 409 413 422, other 4xx       Rejected: these records will not be taken
//	401 402 403 407                  Misconfigured: credentials, permission, plan
//	404 405 410 414 421              Misconfigured: the url is not the receiver's
//	511                              Misconfigured: the network asks to sign in
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
		http.StatusNetworkAuthenticationRequired, http.StatusUpgradeRequired, http.StatusPreconditionRequired, http.StatusRequestHeaderFieldsTooLarge:
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

func isSuccess(status int) bool { return status >= 200 && status < 300 }

// judge says what the answer a means for b: nil when every item was accepted.
func (s *sink) judge(a *answer, b sinks.Batch) error {
	status := a.res.StatusCode
	if !isSuccess(status) {
		return s.refused(a, b)
	}
	if err := s.unproven(a); err != nil {
		return err
	}
	if !s.encoding.Acceptance.Allows(status, a.res.Header.Get("Content-Type")) {
		return s.notAcceptance(a)
	}
	if !s.encoding.AnswerDecides {
		return nil
	}
	if a.cut != nil {
		return s.unread(a, b)
	}
	return s.ofItems(a, b)
}

// challenges are headers by which firewalls and proxies ask for something in place of the
// receiver, with any status, 202 and 200 among them.
var challenges = []string{"X-Amzn-Waf-Action", "Cf-Mitigated", "X-Vercel-Mitigated", "Www-Authenticate", "Proxy-Authenticate"}

// unproven is the failure of an answer of status 2xx that another one has given in place of the
// receiver: a firewall that asks for a challenge, a portal that asks to sign in.
func (s *sink) unproven(a *answer) error {
	for _, name := range challenges {
		if value := a.res.Header.Get(name); value != "" {
			return sinks.Failf(sinks.Misconfigured, "%s with %s: %s: %s", s.answered(a), name, quoted(a.secrets)(value), challengeHint)
		}
	}
	if isHTML(a) {
		return sinks.Failf(sinks.Misconfigured, "%s with an HTML page: %s: check http.url, and which proxies and firewalls are between docket and the receiver", s.answered(a), quoted(a.secrets)(string(a.body)))
	}
	return nil
}

const challengeHint = "a firewall or proxy answers in place of the receiver: let requests from docket through"

// isHTML says whether a is a page, by its Content-Type or the beginning of its body.
func isHTML(a *answer) bool {
	declared, _, _ := mime.ParseMediaType(a.res.Header.Get("Content-Type"))
	return declared == "text/html" || declared == "application/xhtml+xml" || strings.HasPrefix(http.DetectContentType(a.body), "text/html")
}

// notAcceptance is the failure of an answer that the receiver does not document as an acceptance.
func (s *sink) notAcceptance(a *answer) error {
	accepts := s.encoding.Acceptance
	var statuses []string
	for _, status := range accepts.Statuses {
		statuses = append(statuses, strconv.Itoa(status))
	}
	want, got := strings.Join(statuses, ", "), "no Content-Type"
	if accepts.Type != "" {
		want += " with Content-Type " + accepts.Type
	}
	if declared := a.res.Header.Get("Content-Type"); declared != "" {
		got = "Content-Type " + quoted(a.secrets)(declared)
	}
	if text := quoted(a.secrets)(string(a.body)); text != "" {
		got += ": " + text
	}
	return sinks.Failf(sinks.Misconfigured, "%s and %s, which accepts nothing: a receiver of encoding %s accepts with %s: check http.url and http.encoding",
		s.answered(a), got, s.config.Encoding, want)
}

// ofItems is what the encoding reads in the answer about single items.
func (s *sink) ofItems(a *answer, b sinks.Batch) error {
	err := s.encoding.Judge(a.res.StatusCode, a.body, b, quoted(a.secrets))
	if err == nil {
		return nil
	}
	f := *sinks.FailureOf(err)
	f.Err = fmt.Errorf("%s: %w", s.answered(a), f.Err)
	return &f
}

// unread is the failure of an answer whose end, which may refuse records, has not been read.
// Smaller batches have shorter answers.
func (s *sink) unread(a *answer, b sinks.Batch) error {
	err := fmt.Errorf("%s: cannot tell whether records were rejected: the answer could not be read: %w", s.answered(a), bare(a.cut))
	if !errors.Is(a.cut, errTooLong) {
		return err
	}
	f := &sinks.Failure{Kind: sinks.Rejected, Said: sinks.Answer{Status: strconv.Itoa(a.res.StatusCode)}, Err: fmt.Errorf("%w: lower batch.maxRecords", err)}
	if len(b.Items) == 1 { // the record may have been taken
		f.Kind = sinks.Misconfigured
	}
	return f
}

// refused is what an answer other than 2xx says about b.
func (s *sink) refused(a *answer, b sinks.Batch) error {
	status, retryAfter := a.res.StatusCode, a.res.Header.Get("Retry-After")
	kind, hint, known := s.encoding.Status(status, a.body)
	if !known {
		kind, hint = kindOf(status, retryAfter), ""
	}
	switch {
	case status >= 300 && status < 400:
		hint = redirectHint(a.res)
	case isChallenged(a.res):
		kind, hint = sinks.Misconfigured, challengeHint
	case wantsHTTPS(a.res, a.body):
		kind, hint = sinks.Misconfigured, "use https:// in http.url"
	case known && kind == sinks.Rejected:
		if err := s.ofItems(a, b); err != nil {
			return err
		}
	case kind == sinks.Misconfigured && hint == "":
		hint = s.statusHint(status)
	}

	f := &sinks.Failure{Kind: kind, Said: sinks.Answer{Status: strconv.Itoa(status), Text: quoted(a.secrets)(string(a.body))}}
	if kind == sinks.Throttled {
		f.After = parseRetryAfter(retryAfter, time.Now())
	}
	text := s.answered(a)
	for _, more := range []string{f.Said.Text, hint} {
		if more != "" {
			text += ": " + more
		}
	}
	f.Err = errors.New(text)
	return f
}

// isChallenged says whether a firewall has refused the request before the receiver saw it. The
// other challenges belong to 401 and 407.
func isChallenged(res *http.Response) bool {
	return slices.ContainsFunc(challenges[:3], func(name string) bool { return res.Header.Get(name) != "" })
}

// answered is how errors about an answer begin.
func (s *sink) answered(a *answer) string {
	return fmt.Sprintf("post to %s: answered %s", a.res.Request.URL.Host, statusText(a.res.StatusCode))
}

// statusText is the code with the standard phrase: the phrase on the wire is
// free text of the server.
func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// statusHint says what to do about a status that is Misconfigured.
func (s *sink) statusHint(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return s.config.authHint()
	case http.StatusNetworkAuthenticationRequired:
		return "sign in to the network, or let docket through its portal"
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusMisdirectedRequest:
		return "check http.url"
	case http.StatusUnsupportedMediaType, http.StatusNotAcceptable:
		hint := "the receiver must accept " + s.encoding.ContentType
		if s.config.Compression != compressNone {
			hint += " with Content-Encoding " + s.config.Compression
		}
		return hint + ": check http.url, http.encoding and http.compression"
	case http.StatusProxyAuthRequired:
		return proxyHint
	}
	return ""
}

// redirectHint names where a redirect leads, without credentials, path or query.
func redirectHint(res *http.Response) string {
	to, err := res.Location()
	switch {
	case err != nil:
		return "check http.url"
	case sameOrigin(to, res.Request.URL):
		return "set http.url to the final path on this server; only 307 and 308 keep the batch"
	}
	origin := url.URL{Scheme: to.Scheme, Host: to.Host}
	return fmt.Sprintf("redirects to %s: set http.url to the final address if that is right", origin.String())
}

// wantsHTTPS recognises the answers of common servers to plain HTTP on their
// HTTPS port. They are a 400, and taken as that they would set aside record
// after record for a missing letter in the url. Nothing but the text tells.
func wantsHTTPS(res *http.Response, body []byte) bool {
	return res.StatusCode == http.StatusBadRequest && res.Request.URL.Scheme == "http" && contains(body,
		"Client sent an HTTP request to an HTTPS server", // Go
		"The plain HTTP request was sent to HTTPS port",  // nginx
		"speaking plain HTTP to an SSL-enabled server",   // Apache httpd
		"This combination of host and port requires TLS", // Tomcat
	)
}

// parseRetryAfter reads seconds or an HTTP date. What cannot be read, or lies
// in the past, is no wait at all: the delivery loop backs off by itself.
func parseRetryAfter(value string, now time.Time) time.Duration {
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // out of range it is the largest there is
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
