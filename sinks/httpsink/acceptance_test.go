package httpsink

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
)

// openDialect is a sink of d's encoding to r.
func openDialect(t *testing.T, d dialect, r *receiver) sinks.Sink {
	return openSink(t, r.URL, func(c *Config) { c.Encoding = d.encoding })
}

// What the receivers document as an acceptance is one, and no other status of 2xx.
func TestAcceptances(t *testing.T) {
	accepts := map[string][]int{
		"ndjson": {200, 201, 202, 204}, "jsonArray": {200, 201, 202, 204}, "cloudEvents": {200, 201, 202, 204},
		"otlp": {200}, "splunkHEC": {200}, "elasticsearchBulk": {200}, "loki": {204},
	}
	r := newReceiver(t, (*httptest.Server).Start)
	for _, d := range dialects() {
		s := openDialect(t, d, r)
		for _, code := range []int{200, 201, 202, 203, 204, 205, 206, 207, 226, 260, 299} {
			t.Run(fmt.Sprint(d.encoding, " ", code), func(t *testing.T) {
				r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
					io.Copy(io.Discard, req.Body)
					d.status = code
					d.head(w)
					if d.answer != nil {
						io.WriteString(w, d.answer(1))
					}
				})
				if slices.Contains(accepts[d.encoding], code) {
					sendWorks(t, s)
				} else {
					sendFails(t, s, sinks.Misconfigured, "answered "+strconv.Itoa(code))
				}
			})
		}
	}
}

// impostors are those that answer in place of a receiver, and what is said of each.
var impostors = map[string]struct {
	code    int
	headers []string
	body    string
	want    string
}{
	"AWS WAF challenge":    {202, []string{"x-amzn-waf-action", "challenge"}, "", "X-Amzn-Waf-Action: challenge: a firewall or proxy answers"},
	"AWS WAF captcha":      {405, []string{"x-amzn-waf-action", "captcha", "Content-Type", "text/html"}, "<html>", "a firewall or proxy answers"},
	"Cloudflare challenge": {200, []string{"cf-mitigated", "challenge"}, "", "Cf-Mitigated: challenge"},
	"Cloudflare, as a 403": {403, []string{"cf-mitigated", "challenge"}, "", "a firewall or proxy answers"},
	"Cloudflare, as a 429": {429, []string{"cf-mitigated", "challenge"}, "", "a firewall or proxy answers"},
	"a firewall's 400":     {400, []string{"cf-mitigated", "challenge"}, "", "a firewall or proxy answers"},
	"sign-in page":         {200, []string{"Content-Type", "text/html; charset=utf-8"}, "<p>Sign in", "with an HTML page: <p>Sign in"},
	"page without body":    {202, []string{"Content-Type", "text/html"}, "", "with an HTML page"},
	"page in capitals":     {200, []string{"Content-Type", "TEXT/HTML"}, "", "with an HTML page"},
	"XHTML":                {200, []string{"Content-Type", "application/xhtml+xml"}, "", "with an HTML page"},
	"page of another type": {200, []string{"Content-Type", "text/plain"}, "\n <!DOCTYPE html><title>Sign in</title>", "with an HTML page"},
	"page without a type":  {201, []string{"Content-Type", ""}, "<html><body>Please wait", "with an HTML page"},
	"basic challenge":      {200, []string{"WWW-Authenticate", "Basic realm=proxy"}, "", "Www-Authenticate: Basic realm=proxy"},
	"captive portal":       {511, nil, "", "sign in to the network"},
	"proxy that asks":      {202, []string{"Proxy-Authenticate", "Negotiate"}, "", "Proxy-Authenticate: Negotiate"},
}

// Nothing that another one says in place of a receiver is an acceptance, or the fault of records.
func TestImpostors(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	for _, d := range dialects() {
		s := openDialect(t, d, r)
		for name, i := range impostors {
			t.Run(d.encoding+" "+name, func(t *testing.T) {
				r.setAnswer(status(i.code, i.body, i.headers...))
				sendFails(t, s, sinks.Misconfigured, i.want)
				if i.code < 300 {
					probeFails(t, s, i.want)
				}
			})
		}
		r.decode = d.decode
		r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
			_, records := r.read(req)
			d.head(w)
			if d.answer != nil {
				io.WriteString(w, d.answer(len(records)))
			}
		})
		sendWorks(t, s) // it goes on by itself
	}
}

func probeFails(t *testing.T, s sinks.Sink, want string) {
	t.Helper()
	err := s.(*sink).config.Probe(t.Context(), sinks.Env{})
	if err == nil || sinks.FailureOf(err).Kind != sinks.Misconfigured || !strings.Contains(err.Error(), want) {
		t.Errorf("Probe = %v, want Misconfigured with %q", err, want)
	}
}

// An answer that is well formed for another protocol is no acceptance: its Content-Type or its
// members are.
func TestAnswersOfOtherServices(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	for _, test := range []struct{ encoding, contentType, body, want string }{
		{"otlp", "", "", "no Content-Type, which accepts nothing: a receiver of encoding otlp accepts with 200 with Content-Type application/x-protobuf"},
		{"otlp", "application/json", "{}", "application/x-protobuf"},
		{"otlp", "text/plain", "", "application/x-protobuf"},
		{"otlp", "application/x-protobuf", "OK", "/v1/logs"},
		{"splunkHEC", "application/json", `{"code":0,"message":"queued"}`, "/services/collector/event"},
		{"splunkHEC", "application/json", `{"text":"HEC is healthy","code":17}`, "/services/collector/event"},
		{"elasticsearchBulk", "application/json", `{"status":"ok"}`, "/_bulk"},
		{"loki", "", "", "a receiver of encoding loki accepts with 204"},
	} {
		t.Run(test.encoding+" "+test.contentType+" "+test.body, func(t *testing.T) {
			r.setAnswer(status(200, test.body, "Content-Type", test.contentType))
			s := openSink(t, r.URL, func(c *Config) { c.Encoding = test.encoding })
			sendFails(t, s, sinks.Misconfigured, test.want)
		})
	}
}
