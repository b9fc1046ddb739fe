package httpsink

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
)

// noSecretIn wants none of the texts of f to hold part.
func noSecretIn(t *testing.T, f *sinks.Failure, part string) {
	t.Helper()
	if text := f.Error() + f.Said.Text + fmt.Sprint(f.Each); strings.Contains(text, part) {
		t.Errorf("the failure gives a secret away: %q", text)
	}
}

// Wherever an answer is cut, no half of a secret is left before the cut.
func TestSecretAtTheCut(t *testing.T) {
	token := "s3cret-" + strings.Repeat("0123456789", 5)
	for encoding, answer := range map[string]func(pad string) string{
		"elasticsearchBulk": func(pad string) string { return bulkAnswer(1, 0, pad+token) },
		"splunkHEC":         func(pad string) string { return pad + token }, // a page of a gateway
		"ndjson":            func(pad string) string { return pad + token },
	} {
		t.Run(encoding, func(t *testing.T) {
			r := newReceiver(t, (*httptest.Server).Start)
			s := openSink(t, r.URL+"/_bulk", func(c *Config) { c.Encoding, c.BearerTokenFile = encoding, secretFile(t, token) })
			code := 200
			if encoding == "ndjson" {
				code = 422
			}
			for pad := 400; pad < sinks.MaxAnswerText+10; pad += 10 {
				r.setAnswer(status(code, answer(strings.Repeat("x", pad)+" ")))
				f := sinks.FailureOf(s.Send(t.Context(), batch(1, `{"a":1}`)))
				if f == nil {
					t.Fatal("Send = nil, want a failure")
				}
				noSecretIn(t, f, "s3cret-0")
			}
		})
	}
}

// A secret that is part of the protocol takes away the words of an answer, not
// what it decides.
func TestSecretThatIsSyntax(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	s := openSink(t, r.URL+"/_bulk", func(c *Config) { c.Encoding, c.BearerTokenFile = "elasticsearchBulk", secretFile(t, "create") })
	r.setAnswer(status(200, bulkAnswer(3, 1, "cannot create")))
	f := sinks.FailureOf(s.Send(t.Context(), batch(1, `{}`, `{}`, `{}`)))
	if f == nil || f.Kind != sinks.Rejected || !slices.Equal(f.Items, []int{1}) {
		t.Fatalf("Send = %v, want item 1 to be refused", f)
	}
	noSecretIn(t, f, "create")
}

// A receiver may quote a secret in the way of whatever it writes.
func TestSecretInOtherForms(t *testing.T) {
	const secret = `s3cret"pass\word&more/+ x`
	r := newReceiver(t, (*httptest.Server).Start)
	for name, test := range map[string]struct{ encoding, text string }{
		"JSON":              {"ndjson", `{"error":"no s3cret\"pass\\word&more/+ x"}`},
		"JSON for HTML":     {"ndjson", `{"error":"no s3cret\"pass\\word\u0026more/+ x"}`},
		"JSON with slashes": {"ndjson", `{"error":"no s3cret\"pass\\word\u0026more\/+ x"}`},
		"query":             {"ndjson", "no " + url.QueryEscape(secret)},
		"path":              {"ndjson", "no " + url.PathEscape(secret)},
		"quoted by docket":  {"splunkHEC", "no " + secret},
	} {
		t.Run(name, func(t *testing.T) {
			s := openSink(t, r.URL, func(c *Config) {
				c.Encoding, c.Basic = test.encoding, &Basic{Username: "docket", PasswordFile: secretFile(t, secret)}
			})
			code := 403
			if test.encoding == "splunkHEC" {
				code = 200
			}
			r.setAnswer(status(code, test.text))
			f := sinks.FailureOf(s.Send(t.Context(), batch(1, `{}`)))
			if f == nil || !strings.Contains(f.Error(), "no [redacted]") {
				t.Fatalf("Send = %v, want no [redacted] in it", f)
			}
			wantNoSecret(t, f)
		})
	}
}

func TestSecretInURL(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	s := openSink(t, r.URL+"/hooks?a=b&ref=s3cret%2Babcd%2F0")
	for _, test := range []struct{ text, want string }{
		{"no s3cret%2Babcd%2F0", "no [redacted]"},
		{"no s3cret+abcd/0", "no [redacted]"},
		{"no a=b&ref=s3cret%2Babcd%2F0", "no [redacted]"},
	} {
		r.setAnswer(status(http.StatusNotFound, test.text))
		wantNoSecret(t, sendFails(t, s, sinks.Misconfigured, "Not Found: "+test.want))
	}
}
