package tap_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/webhook/tap"
)

// protocol is what both sides of a connection speak: "http/1.1" or "h2".
type protocol string

var protocols = []protocol{"http/1.1", "h2"}

// newServer returns a server that speaks p alone, with a certificate for 127.0.0.1.
func newServer(t *testing.T, p protocol, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(p == "http/1.1")
	s.Config.Protocols.SetHTTP2(p == "h2")
	s.TLS = &tls.Config{NextProtos: []string{string(p)}}
	s.EnableHTTP2 = p == "h2"
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// caFile holds the certificate of s, which is its own CA.
func caFile(t *testing.T, s *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// newClient returns a client of s that speaks p alone.
func newClient(t *testing.T, p protocol, s *httptest.Server) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	tr := &http.Transport{
		TLSClientConfig:       &tls.Config{RootCAs: roots},
		Protocols:             new(http.Protocols),
		DisableCompression:    true,
		ExpectContinueTimeout: await.Left(t),
		MaxIdleConnsPerHost:   100,
	}
	tr.Protocols.SetHTTP1(p == "http/1.1")
	tr.Protocols.SetHTTP2(p == "h2")
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: await.Left(t), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// results counts what the proxy says of requests.
type results struct {
	mu    sync.Mutex
	count map[tap.Result]int
}

func (r *results) observe(result tap.Result, _ time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == nil {
		r.count = make(map[tap.Result]int)
	}
	r.count[result]++
}

func (r *results) want(t *testing.T, want tap.Result, n int) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%d requests that end as %s", n, want), func() bool { // a handler ends after its answer
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.count[want] == n
	})
}

// newTap returns a proxy in front of engine, itself a server that speaks p.
func newTap(t *testing.T, p protocol, engine *httptest.Server, change func(*tap.Config)) *httptest.Server {
	t.Helper()
	config := tap.Config{Upstream: engine.URL, CAFile: caFile(t, engine), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if change != nil {
		change(&config)
	}
	proxy, err := tap.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, p, proxy)
	t.Cleanup(proxy.Close)
	return s
}

// everyWay runs a test with clients of each protocol.
func everyWay(t *testing.T, test func(t *testing.T, client protocol)) {
	for _, client := range protocols {
		t.Run(strings.ReplaceAll(string(client), "/", " "), func(t *testing.T) {
			t.Parallel()
			test(t, client)
		})
	}
}

// seen is what an engine sees of a request.
type seen struct {
	Method, URI, Host string
	Header, Trailer   http.Header
	Length            int64
	Body              string
}

// mirror is an engine that answers with what it has seen.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	h := w.Header()
	h["Date"] = []string{"Mon, 02 Jan 2006 15:04:05 GMT"}
	h["X-Twice"] = []string{"b", "a"}
	h["X-Forwarded-For"] = []string{"an engine's own"}
	switch r.Header.Get("X-Want") {
	case "no type":
		h["Content-Type"], h["Date"] = nil, nil
	case "gzip":
		h.Set("Content-Encoding", "gzip")
	case "redirect":
		h.Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
	case "none":
		w.WriteHeader(http.StatusNoContent)
		return
	case "early":
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
	}
	if r.Method != http.MethodHead {
		h.Set("Trailer", "X-Sum")
	}
	w.(http.Flusher).Flush() // an answer of a known length has no trailers on HTTP/1.1
	json.NewEncoder(w).Encode(seen{r.Method, r.RequestURI, r.Host, r.Header, r.Trailer, r.ContentLength, string(body)})
	h.Set("X-Sum", "42")
}

// got is what a client gets back.
type got struct {
	Status          int
	Header, Trailer http.Header
	Length          int64
	Body            string
	Hints           []string // 1xx answers
}

// ask sends a request and says what came back. The request goes to base, unchanged but for
// that, with the same Host.
func ask(t *testing.T, c *http.Client, base string, next func() *http.Request) got {
	t.Helper()
	r := next()
	_, address, _ := strings.Cut(base, "https://")
	r.URL.Scheme, r.URL.Host = "https", address
	var hints []string
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			hints = append(hints, fmt.Sprint(code, header))
			return nil
		},
	}))
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got{res.StatusCode, res.Header, res.Trailer, res.ContentLength, string(body), hints}
}

func request(method, uri, body string, header http.Header) func() *http.Request {
	return func() *http.Request {
		r, err := http.NewRequest(method, "https://engine.svc"+uri, nil)
		if err != nil {
			panic(err)
		}
		r.Header = header.Clone()
		if r.Header == nil {
			r.Header = http.Header{}
		}
		if _, ok := r.Header["User-Agent"]; !ok {
			r.Header.Set("User-Agent", "test")
		}
		r.Host = "engine.svc"
		if body != "" {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		}
		return r
	}
}

func chunked(next func() *http.Request) func() *http.Request {
	return func() *http.Request {
		r := next()
		r.ContentLength = -1
		return r
	}
}

func trailed(next func() *http.Request) func() *http.Request {
	return func() *http.Request {
		r := chunked(next)()
		r.Trailer = http.Header{"X-Check": nil}
		r.Body = io.NopCloser(io.MultiReader(r.Body, atEnd(func() { r.Trailer.Set("X-Check", "sum") })))
		return r
	}
}

type atEnd func()

func (f atEnd) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// What a direct client makes the engine see, and gets back, is the same through the proxy.
func TestUntouched(t *testing.T) {
	review := `{"kind":"AdmissionReview"}`
	kind := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"kube-apiserver-admission"}}
	tests := map[string]func() *http.Request{
		"review":                request("POST", "/v1/admit?timeout=10s", review, kind),
		"health":                request("GET", "/healthz", "", nil),
		"HEAD":                  request("HEAD", "/healthz", "", nil),
		"DELETE with a body":    request("DELETE", "/x", "b", nil),
		"OPTIONS":               request("OPTIONS", "/", "", nil),
		"unknown method":        request("BREW", "/pot", "", nil),
		"PUT chunked":           chunked(request("PUT", "/x", strings.Repeat("x", 100_000), nil)),
		"big":                   request("POST", "/x", strings.Repeat("x", 5<<20), kind),
		"escaped path":          request("GET", "/a%2Fb/%41;c=d//e/../f%20g", "", nil),
		"odd path":              request("GET", "/a|b^c", "", nil),
		"odd query":             request("GET", "/x?a;b&c=%zz&&d==&e", "", nil),
		"empty query":           request("GET", "/x?", "", nil),
		"forwarded":             request("GET", "/", "", http.Header{"X-Forwarded-For": {"1.2.3.4", "5.6.7.8"}, "X-Forwarded-Host": {"h"}, "X-Forwarded-Proto": {"p"}, "Forwarded": {"for=x"}, "Via": {"v"}}),
		"no user agent":         request("GET", "/", "", http.Header{"User-Agent": nil}),
		"several values":        request("GET", "/", "", http.Header{"X-A": {"2", "1", "", "1"}, "Cookie": {"a=b; c=d"}, "Accept": {"a, b"}}),
		"compression":           request("POST", "/", "\x1f\x8b not really", http.Header{"Content-Encoding": {"gzip"}, "Accept-Encoding": {"gzip, br"}, "X-Want": {"gzip"}}),
		"idempotency key":       request("POST", "/", review, http.Header{"Idempotency-Key": {"k"}}),
		"trailers":              trailed(request("POST", "/", review, http.Header{"Te": {"trailers"}})),
		"answer without type":   request("GET", "/", "", http.Header{"X-Want": {"no type"}}),
		"redirect":              request("GET", "/", "", http.Header{"X-Want": {"redirect"}}),
		"no content":            request("GET", "/", "", http.Header{"X-Want": {"none"}}),
		"early hints":           request("GET", "/", "", http.Header{"X-Want": {"early"}}),
		"expect":                request("POST", "/", review, http.Header{"Expect": {"100-continue"}}),
		"timeout in vain":       request("POST", "/?timeout=soon", review, kind),
		"timeout without a day": request("POST", "/?timeout=-1s", review, kind),
	}
	everyWay(t, func(t *testing.T, client protocol) {
		e := newServer(t, "http/1.1", http.HandlerFunc(mirror))
		through := newTap(t, client, e, nil)
		direct, c := newClient(t, "http/1.1", e), newClient(t, client, through)
		for name, make := range tests {
			if name == "expect" && client == "h2" {
				continue // a server of HTTP/2 in Go keeps the header from its handler
			}
			t.Run(name, func(t *testing.T) {
				want, is := ask(t, direct, e.URL, make), ask(t, c, through.URL, make)
				if !equal(is, want) {
					t.Errorf("got\n%+v\nwant\n%+v", short(is), short(want))
				}
			})
		}
	})
}

// The engine sees the target of a request as the client has written it, and no Host that
// the client has not named.
func TestTargetIsUntouched(t *testing.T) {
	e := newServer(t, "http/1.1", http.HandlerFunc(mirror))
	through := newTap(t, "http/1.1", e, nil)
	sees := func(s *httptest.Server, head string) (is seen) {
		nc := dialRaw(t, s)
		io.WriteString(nc, head+"\r\nConnection: close\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&is); err != nil {
			t.Fatal(err)
		}
		return seen{Method: is.Method, URI: is.URI, Host: is.Host}
	}
	for _, head := range []string{
		"GET //a//b HTTP/1.1\r\nHost: h",
		"GET /a|\"<b>^`{}\\%2F%2f%41\xe9?a=|&&b HTTP/1.1\r\nHost: h",
		"GET /a|b\"\xff HTTP/1.1\r\nHost: h:1",
		"GET /x HTTP/1.0\r\nHost: h",
	} {
		if got, want := sees(through, head), sees(e, head); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, want %+v", head, got, want)
		}
	}
}

// A client of HTTP/2 can say a method or a path that would be two requests, or another, in
// HTTP/1.1.
func TestMalformedRequest(t *testing.T) {
	e := newServer(t, "http/1.1", http.HandlerFunc(mirror))
	proxy, err := tap.New(tap.Config{Upstream: e.URL, CAFile: caFile(t, e)})
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	for _, test := range []struct{ method, target string }{
		{"GET /x HTTP/1.1\r\nHost: h\r\n\r\nGET", "/"}, {"GET /x", "/"}, {"G\tT", "/"}, {"G:T", "/"}, {"GÉT", "/"},
		{"GET", "/ HTTP/1.1\r\nX-A: b"}, {"GET", "/a b"}, {"GET", "/a\x7f"}, {"GET", ""},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Method, r.RequestURI = test.method, test.target
		w := httptest.NewRecorder()
		if proxy.ServeHTTP(w, r); w.Code != http.StatusBadRequest {
			t.Errorf("%q %q: got %d, want 400", test.method, test.target, w.Code)
		}
	}
}

func equal(a, b got) bool { return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b) }

func short(g got) got {
	g.Body = g.Body[:min(len(g.Body), 700)]
	return g
}

// A body that is refused before it is sent stays unsent, through the proxy as without.
func TestExpectRefused(t *testing.T) {
	e := newServer(t, "http/1.1", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusExpectationFailed) }))
	through := newTap(t, "http/1.1", e, nil)
	read := false
	r := request("POST", "/", "body", http.Header{"Expect": {"100-continue"}})()
	r.Body = io.NopCloser(io.MultiReader(atStart(func() { read = true }), r.Body))
	if got := ask(t, newClient(t, "http/1.1", through), through.URL, func() *http.Request { return r }); got.Status != http.StatusExpectationFailed || read {
		t.Errorf("got %d, body read: %v, want 417 and no body", got.Status, read)
	}
}

type atStart func()

func (f atStart) Read([]byte) (int, error) { f(); return 0, io.EOF }

// Parts of an answer come through as they are written.
func TestAnswerStreams(t *testing.T) {
	everyWay(t, func(t *testing.T, client protocol) {
		next := make(chan bool)
		e := newServer(t, "http/1.1", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range next {
				io.WriteString(w, "line\n")
				w.(http.Flusher).Flush()
			}
		}))
		through := newTap(t, client, e, nil)
		go func() { next <- true }()
		res, err := newClient(t, client, through).Get(through.URL + "/watch")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		lines := bufio.NewReader(res.Body)
		for range 3 {
			if line, err := lines.ReadString('\n'); line != "line\n" {
				t.Fatalf("got %q, %v, want a line at once", line, err)
			}
			next <- true
		}
		close(next)
		if rest, err := io.ReadAll(lines); err != nil || string(rest) != "line\n" {
			t.Errorf("got %q, %v, want the last line and the end", rest, err)
		}
	})
}

// A connection that changes its protocol is handed through.
func TestUpgrade(t *testing.T) {
	e := newServer(t, "http/1.1", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		nc, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer nc.Close()
		io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		io.WriteString(nc, "echo "+line)
	}))
	through := newTap(t, "http/1.1", e, nil)
	roots := x509.NewCertPool()
	roots.AddCert(through.Certificate())
	nc, err := tls.Dial("tcp", through.Listener.Addr().String(), &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	answers := bufio.NewReader(nc)
	if head, err := textproto.NewReader(answers).ReadLine(); head != "HTTP/1.1 101 Switching Protocols" {
		t.Fatalf("got %q, %v, want 101", head, err)
	}
	if _, err := textproto.NewReader(answers).ReadMIMEHeader(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(nc, "hello\n")
	if line, err := answers.ReadString('\n'); line != "echo hello\n" {
		t.Errorf("got %q, %v, want an echo", line, err)
	}
}
