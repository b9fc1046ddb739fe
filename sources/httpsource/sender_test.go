package httpsource

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/docket-export/docket/sources/sourcetest"
)

// What a page in a browser can send without asking is not taken, whatever its body.
func TestPagesCannotForge(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	own := "http://" + r.source.Addr().String()
	_, port, _ := net.SplitHostPort(r.source.Addr().String())
	for name, tt := range map[string]struct {
		host    string // as the request names it; empty: the address
		headers map[string]string
		status  int
	}{
		"an engine":             {"", map[string]string{"Content-Type": "application/json"}, 200},
		"an engine with a name": {"localhost:" + port, map[string]string{"Content-Type": "application/json; charset=utf-8"}, 200},
		"no type":               {"", nil, 200},
		"a text":                {"", map[string]string{"Content-Type": "text/plain"}, 415},
		"a form":                {"", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, 415},
		"a form with parts":     {"", map[string]string{"Content-Type": "multipart/form-data; boundary=x"}, 415},
		"no type that can be":   {"", map[string]string{"Content-Type": ";"}, 415},
		"another's name":        {"rebound.example:" + port, map[string]string{"Content-Type": "application/json"}, 421},
		"another's address":     {"192.0.2.1", nil, 421},
		"a page of another":     {"", map[string]string{"Content-Type": "application/json", "Origin": "https://evil.example"}, 403},
		"a page of nobody":      {"", map[string]string{"Origin": "null"}, 403},
		"a page of its own":     {"", map[string]string{"Content-Type": "application/json", "Origin": own}, 200},
		"a page by its site":    {"", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"a page of the site":    {"", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequest(http.MethodPost, r.url, strings.NewReader(eventsOf(name)))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = tt.host
			for key, value := range tt.headers {
				req.Header.Set(key, value)
			}
			before := len(in.Lines())
			resp, err := r.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if stored := len(in.Lines()) - before; resp.StatusCode != tt.status || stored != 0 != (tt.status == 200) {
				t.Errorf("got the answer %d and %d events stored, want %d", resp.StatusCode, stored, tt.status)
			}
		})
	}
}

// What one upload may have refused, and hold, is bounded: beyond that it is answered at
// once, and nothing of it reaches the queue or the log of refused lines.
func TestRefusalsOfAnUploadAreBounded(t *testing.T) {
	t.Parallel()
	many := func(event string, n int) string { return "[" + strings.Repeat(event+",", n-1) + event + "]" }
	for name, tt := range map[string]struct {
		body   string
		status int
	}{
		"three million arrays": {many("[]", 3_000_000), 400},
		"no JSON":              {many("{x}", maxUnfit+1), 400},
		"numbers":              {many("1", maxUnfit+1), 400},
		"as many as may be":    {many("[]", maxUnfit), 200},
		"too many events":      {many("{}", maxEvents+1), 413},
	} {
		t.Run(name, func(t *testing.T) {
			in := sourcetest.New()
			defer in.Close()
			r := start(t, in)
			status, text := r.post(tt.body)
			if status != tt.status {
				t.Errorf("got the answer %d %q, want %d", status, text, tt.status)
			}
			if got := len(in.Lines()); status == 400 && got > 0 {
				t.Errorf("got %d lines, want none of an upload that is refused", got)
			}
		})
	}
}

// A header takes little memory, however many fields it has.
func TestHeadersAreBounded(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	for name, tt := range map[string]struct {
		fields, bytes int // of each
		status        string
	}{
		"an engine's": {10, 20, " 200 "},
		"many fields": {maxFields, 8, " 431 "},
		"long fields": {10, 1000, " 431 "},
	} {
		t.Run(name, func(t *testing.T) {
			r.converse(func(nc net.Conn, heard *bufio.Reader) {
				fmt.Fprintf(nc, "POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n")
				for n := range tt.fields {
					fmt.Fprintf(nc, "X%d: %s\r\n", n, strings.Repeat("x", tt.bytes))
				}
				fmt.Fprintf(nc, "\r\n[]")
				if line, err := heard.ReadString('\n'); err != nil || !strings.Contains(line, tt.status) {
					t.Errorf("got the status %q (%v), want%s", line, err, tt.status)
				}
			})
		})
	}
}
