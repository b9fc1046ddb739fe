package httpsink

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/sinks"
)

func TestStatus(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	s := openSink(t, r.URL)
	for kind, codes := range map[sinks.Kind][]int{
		sinks.Transient:     {408, 425, 500, 501, 502, 503, 504, 507, 520},
		sinks.Throttled:     {429},
		sinks.Misconfigured: {300, 301, 302, 303, 304, 307, 308, 401, 402, 403, 404, 405, 406, 407, 410, 411, 414, 415, 417, 421, 426, 428, 431},
		sinks.Rejected:      {400, 409, 413, 418, 422, 423, 451, 499},
	} {
		for _, code := range codes {
			t.Run(fmt.Sprint(code), func(t *testing.T) {
				r.setAnswer(status(code, ""))
				f := sendFails(t, s, kind, fmt.Sprint("answered ", code))
				if f.After != 0 || f.Items != nil {
					t.Errorf("After = %v, Items = %v, want neither", f.After, f.Items)
				}
			})
		}
	}
	r.setAnswer(status(503, "", "Retry-After", "30"))
	if f := sendFails(t, s, sinks.Throttled); f.After != 30*time.Second {
		t.Errorf("After = %v, want 30s", f.After)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 5, 10, 4, 7, 0, time.UTC)
	for name, test := range map[string]struct {
		value string
		want  time.Duration
	}{
		"none":        {"", 0},
		"seconds":     {"120", 2 * time.Minute},
		"zero":        {"0", 0},
		"negative":    {"-5", 0},
		"date":        {"Mon, 05 Jan 2026 10:05:00 GMT", 53 * time.Second},
		"old date":    {"Monday, 05-Jan-26 10:05:00 GMT", 53 * time.Second},
		"past date":   {"Mon, 05 Jan 2026 10:00:00 GMT", 0},
		"far date":    {"Tue, 05 Jan 2027 10:00:00 GMT", time.Hour},
		"far seconds": {"86400", time.Hour},
		"overflow":    {"18446744073709551615", time.Hour},
		"too long":    {"18446744073709551616", time.Hour},
		"nonsense":    {"soon", 0},
	} {
		if got := parseRetryAfter(test.value, now); got != test.want {
			t.Errorf("%s: parseRetryAfter(%q) = %v, want %v", name, test.value, got, test.want)
		}
	}
}

func TestAnswerIsQuoted(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	s := openSink(t, r.URL+"?ref=s3cret-key", func(c *Config) { c.BearerTokenFile = secretFile(t, "s3cret-token") })
	for name, test := range map[string]struct{ answer, want string }{
		"text":         {"field a: not a number", "field a: not a number"},
		"lines":        {"<p>no</p>\r\n\t\n  <p>way</p>", "<p>no</p> <p>way</p>"},
		"token":        {"bad token s3cret-token.", "bad token [redacted]."},
		"query":        {"no /?ref=s3cret-key here", "no /?[redacted] here"},
		"of the query": {"bad key: s3cret-key", "bad key: [redacted]"},
		"cut":          {strings.Repeat("y", 600), strings.Repeat("y", 509) + "..."},
	} {
		t.Run(name, func(t *testing.T) {
			r.setAnswer(status(422, test.answer))
			f := sendFails(t, s, sinks.Rejected)
			_, got, _ := strings.Cut(f.Error(), "answered 422 Unprocessable Entity: ")
			if got != test.want {
				t.Errorf("quoted %q, want %q", got, test.want)
			}
			wantNoSecret(t, f)
		})
	}
}

// The receiver's answer has no end; Send reads its part and hangs up.
func TestEndlessAnswer(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	written := make(chan int, 1)
	r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		w.WriteHeader(400)
		total, chunk := 0, []byte(strings.Repeat("x", 64<<10))
		for {
			n, err := w.Write(chunk)
			total += n
			if err != nil {
				written <- total
				return
			}
		}
	})
	f := sendFails(t, openSink(t, r.URL), sinks.Rejected)
	if got := len(f.Error()); got > sinks.MaxAnswerText+100 {
		t.Errorf("the error has %d bytes, want at most %d and what was attempted", got, sinks.MaxAnswerText)
	}
	if got := <-written; got > 32<<20 {
		t.Errorf("the receiver could write %d bytes, want no more than sockets hold", got)
	}
}

func TestRedirects(t *testing.T) {
	other := newReceiver(t, (*httptest.Server).Start)
	r := newReceiver(t, (*httptest.Server).Start)
	s := openSink(t, r.URL+"/old", func(c *Config) { c.BearerTokenFile = secretFile(t, "s3cret") })
	// redirect sends /old to location and accepts whatever else comes.
	redirect := func(code int, location string) {
		r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/old" {
				status(code, "", "Location", location)(w, req)
				return
			}
			r.accept(req)
		})
	}
	for _, code := range []int{307, 308} {
		t.Run(fmt.Sprint(code, " within the server"), func(t *testing.T) {
			redirect(code, "/new")
			record := fmt.Sprintf(`{"code":%d}`, code)
			if err := s.Send(t.Context(), batch(1, record)); err != nil {
				t.Fatalf("Send = %v, want nil", err)
			}
			if got := r.accepted(); len(got) == 0 || got[len(got)-1] != record {
				t.Errorf("the receiver holds %q, want %q at the end", got, record)
			}
			req := r.lastRequest(t)
			if req.Method != "POST" || req.Header.Get("Authorization") != "Bearer s3cret" || req.Header.Get("docket-first-seq") != "1" {
				t.Errorf("redirected to %s %v, want a POST with all headers", req.Method, req.Header)
			}
		})
	}
	for _, code := range []int{301, 302, 303} {
		t.Run(fmt.Sprint(code, " within the server"), func(t *testing.T) {
			redirect(code, "/new?key=s3cret")
			wantNoSecret(t, sendFails(t, s, sinks.Misconfigured, fmt.Sprint(code), "set http.url to the final path"))
		})
	}
	for _, code := range []int{301, 307, 308} {
		t.Run(fmt.Sprint(code, " to another server"), func(t *testing.T) {
			redirect(code, strings.Replace(other.URL, "http://", "http://user:s3cret@", 1)+"/s3cret?s3cret")
			wantNoSecret(t, sendFails(t, s, sinks.Misconfigured, "redirects to "+other.URL))
		})
	}
	t.Run("to another scheme", func(t *testing.T) {
		redirect(308, strings.Replace(r.URL, "http:", "https:", 1)+"/new")
		sendFails(t, s, sinks.Misconfigured, "redirects to https://")
	})
	t.Run("for ever", func(t *testing.T) {
		redirect(307, "/old")
		sendFails(t, s, sinks.Misconfigured, "answered 307")
	})
	if n := len(other.requests); n != 0 {
		t.Errorf("the other server got %d requests, want none", n)
	}
}
