package httpsink

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/sinks"
)

// answers makes r accept what is sent and answer with text in coding.
func (r *receiver) answers(code int, text, coding string) {
	r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
		r.accept(req)
		if coding != "" {
			w.Header().Set("Content-Encoding", coding)
		}
		w.WriteHeader(code)
		io.WriteString(w, text)
	})
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCompressedAnswer(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	s := openSink(t, r.URL)
	bomb := strings.Repeat("x", 2<<20)
	for name, test := range map[string]struct{ text, coding, want string }{
		"gzip":         {gzipped(t, "field a: not a number"), "gzip", "field a: not a number"},
		"old name":     {gzipped(t, "no"), "X-GZIP", "no"},
		"bomb":         {gzipped(t, bomb), "gzip", bomb[:sinks.MaxAnswerText-3] + "..."},
		"cut":          {gzipped(t, "half of it")[:22], "gzip", "half of it"},
		"not gzip":     {"plain", "gzip", ""},
		"not asked of": {"\x28\xb5\x2f\xfd", "zstd", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r.answers(422, test.text, test.coding)
			f := sendFails(t, s, sinks.Rejected, "answered 422")
			if f.Said.Text != test.want && !(name == "cut" && strings.HasPrefix(test.want, f.Said.Text)) {
				t.Errorf("quoted %q, want %q", f.Said.Text, test.want)
			}
			if f.Said.Status != "422" {
				t.Errorf("Said.Status = %q, want 422", f.Said.Status)
			}
		})
	}
	r.answers(200, "not gzip at all", "gzip")
	sendWorks(t, s) // the status has said it
}

func TestReadAnswerIsBounded(t *testing.T) {
	const limit = 1000
	long := strings.Repeat("x", 100*limit)
	for name, test := range map[string]struct {
		coding, text string
		want         int
		cut          bool
	}{
		"as long as may be": {"", long[:limit], limit, false},
		"longer":            {"", long[:limit+1], limit, true},
		"much longer":       {"", long, limit, true},
		"compressed":        {"gzip", gzipped(t, long[:limit]), limit, false},
		"bomb":              {"gzip", gzipped(t, long), limit, true},
		"nothing for much":  {"gzip", strings.Repeat(gzipped(t, ""), 100), 0, true},
		"none":              {"", "", 0, false},
	} {
		res := &http.Response{Header: http.Header{"Content-Encoding": {test.coding}}, Body: io.NopCloser(strings.NewReader(test.text))}
		a := readAnswer(res, limit, time.Hour, func() {})
		if len(a.body) != test.want || (a.cut != nil) != test.cut {
			t.Errorf("%s: read %d bytes, cut: %v, want %d, %v", name, len(a.body), a.cut, test.want, test.cut)
		}
	}
}

// bulkAnswer is what Elasticsearch answers to n items of which one is refused.
func bulkAnswer(n, refused int, reason string) string {
	items := slices.Repeat([]string{`{"create":{"status":201}}`}, n)
	items[refused] = fmt.Sprintf(`{"create":{"status":400,"error":{"type":"mapper_parsing_exception","reason":%q}}}`, reason)
	return `{"errors":true,"items":[` + strings.Join(items, ",") + `]}`
}

func TestAnswerOfItems(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	r.decode = decodeBulk
	secret := secretFile(t, "s3cret")
	s := openSink(t, r.URL+"/_bulk?pipeline=s3cret-pipe", func(c *Config) {
		c.Encoding, c.HeaderFiles = "elasticsearchBulk", headerFiles{"Authorization": secret}
	})
	var records []string
	for i := range 500 {
		records = append(records, fmt.Sprintf(`{"n":%d}`, i))
	}
	for _, coding := range []string{"", "gzip"} {
		text := bulkAnswer(500, 123, "s3cret is no number")
		if coding != "" {
			text = gzipped(t, text)
		}
		r.answers(200, text, coding)
		f := sinks.FailureOf(s.Send(t.Context(), batch(1, records...)))
		if f.Kind != sinks.Rejected || !slices.Equal(f.Items, []int{123}) {
			t.Fatalf("Send failed as %v of items %v (%v), want %v of 123", f.Kind, f.Items, f, sinks.Rejected)
		}
		if said := f.Answer(123); said.Status != "400" || !strings.Contains(said.Text, "mapper_parsing_exception: [redacted] is no number") {
			t.Errorf("said of item 123: %+v, want the receiver's words without the secret", said)
		}
		if !strings.HasPrefix(f.Error(), "post to "+r.Listener.Addr().String()+": answered 200 OK: ") {
			t.Errorf("the error is %q, want it to begin with what was attempted", f)
		}
		wantNoSecret(t, f)
	}
	req := r.lastRequest(t)
	if got := req.URL.Query(); got.Get("pipeline") != "s3cret-pipe" || got.Get("filter_path") == "" {
		t.Errorf("query is %v, want that of the URL and that of the encoding", got)
	}
	sendFails(t, openSink(t, r.URL+"/_bulk?filter_path=errors", func(c *Config) { c.Encoding = "elasticsearchBulk" }), sinks.Transient)
	if got := r.lastRequest(t).URL.RawQuery; got != "filter_path=errors" {
		t.Errorf("query is %s, want that of the URL alone", got)
	}
	if got := req.Header.Get("Accept-Encoding"); got != "gzip" {
		t.Errorf("Accept-Encoding is %q, want gzip", got)
	}
}

// What an answer says of single records cannot be left out. It is waited for
// longer than an answer that says nothing more.
func TestAnswerThatDecides(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, (*httptest.Server).Start)
	r.decode = decodeBulk
	bulk := func(c *Config) { c.Encoding = "elasticsearchBulk" }
	t.Run("slow", func(t *testing.T) {
		r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
			r.accept(req)
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			select {
			case <-time.After(drainTime + drainTime/2):
			case <-req.Context().Done():
			}
			io.WriteString(w, bulkAnswer(1, 0, "late words"))
		})
		sendFails(t, openSink(t, r.URL, bulk), sinks.Rejected, "late words")
	})
	t.Run("too long", func(t *testing.T) { // smaller batches have shorter answers
		s := openSink(t, r.URL, bulk)
		for n, want := range map[int]sinks.Kind{1: sinks.Misconfigured, 2: sinks.Rejected} {
			r.answers(200, `{"errors":false,"items":[`+strings.Repeat(`{"create":{"status":201}},`, 10<<20/26)+`{}]}`, "")
			f := sinks.FailureOf(s.Send(t.Context(), batch(1, slices.Repeat([]string{`{}`}, n)...)))
			if f == nil || f.Kind != want || f.Items != nil || !strings.Contains(f.Error(), "more than 1Mi: lower batch.maxRecords") {
				t.Errorf("Send of %d records failed as %v, want %v without items", n, f, want)
			}
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		r.answers(200, "plain", "gzip")
		sendFails(t, openSink(t, r.URL, bulk), sinks.Transient, "could not be read")
	})
}
