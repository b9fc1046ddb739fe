package tap_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/webhook/tap"
)

var jsonHeader = http.Header{"Content-Type": {"application/json; charset=utf-8"}}

// What was asked is read to its end though there is no engine, so that the record of the
// failure can tell of it. The next request comes on another connection: the API server
// finds an engine that is back where the Service says that it is ready.
func TestEngineDownIsKnown(t *testing.T) {
	for _, p := range protocols {
		e := newServer(t, "http/1.1", http.HandlerFunc(mirror))
		proxy, err := tap.New(tap.Config{Upstream: e.URL, CAFile: caFile(t, e)})
		if err != nil {
			t.Fatal(err)
		}
		e.Close()
		var read atomic.Int64
		s := newServer(t, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = &counting{r.Body, &read}
			proxy.ServeHTTP(w, r)
		}))
		c := newClient(t, p, s)
		var reused []bool
		for range 2 {
			const size = 100 << 10
			read.Store(0)
			got := ask(t, c, s.URL, func() *http.Request {
				r := request("POST", "/", "", jsonHeader)()
				r.Body, r.ContentLength = zeros(size), size
				return r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					GotConn: func(info httptrace.GotConnInfo) { reused = append(reused, info.Reused) },
				}))
			})
			if n := read.Load(); got.Status != http.StatusBadGateway || n != size {
				t.Errorf("%s: got %d with %d bytes read, want 502 with all %d", p, got.Status, n, size)
			}
		}
		if !slices.Equal(reused, []bool{false, false}) {
			t.Errorf("%s: connections reused: %v, want none", p, reused)
		}
	}
}

// counting counts what is read of a body.
type counting struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// When the time that the API server gave is over the answer is 504, and the engine is told
// to stop. Another kind of request has no time-out.
func TestSlowEngine(t *testing.T) {
	everyWay(t, func(t *testing.T, client protocol) {
		told, goOn := make(chan error, 1), make(chan bool, 1)
		e := newServer(t, "http/1.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if r.Method == http.MethodGet {
				<-goOn
				return
			}
			<-r.Context().Done()
			told <- r.Context().Err()
		}))
		var ended results
		through := newTap(t, client, e, func(c *tap.Config) { c.Observe = ended.observe })
		c := newClient(t, client, through)
		t.Cleanup(func() { close(goOn) }) // before the servers are closed
		goOn <- true
		ask(t, c, through.URL, request("GET", "/", "", nil)) // connected: a slow machine needs the time for that
		answer := make(chan got, 1)
		go func() { answer <- ask(t, c, through.URL, request("GET", "/?timeout=10ms", "", jsonHeader)) }()
		began := time.Now()
		got := ask(t, c, through.URL, request("POST", "/?timeout=250ms", "{}", jsonHeader))
		if took := time.Since(began); got.Status != http.StatusGatewayTimeout || took < 250*time.Millisecond {
			t.Errorf("got %d %q after %s, want 504 after 250ms", got.Status, got.Body, took)
		}
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the engine's context canceled", err)
		}
		goOn <- true
		if got := <-answer; got.Status != http.StatusOK {
			t.Errorf("got %d for a GET, want no time-out", got.Status)
		}
		ended.want(t, tap.TimedOut, 1)
		ended.want(t, tap.Answered, 2)
	})
}

// A body that does not come holds up no answer: not the 504 at its time, nor, for longer
// than a second, the 502.
func TestSlowBody(t *testing.T) {
	for name, test := range map[string]struct {
		engine http.HandlerFunc
		want   string
	}{
		"time is over": {func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }, "504 Gateway Timeout"},
		"no engine":    {nil, "502 Bad Gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newServer(t, "http/1.1", test.engine)
			through := newTap(t, "http/1.1", e, nil)
			if test.engine == nil {
				e.Close()
			}
			nc := dialRaw(t, through)
			io.WriteString(nc, "POST /?timeout=500ms HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")
			res, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.Status != test.want { // the body never comes, so that an answer that waits for it is a hang
				t.Errorf("got %s, want %s", res.Status, test.want)
			}
		})
	}
}

// zeros is a body of n bytes.
func zeros(n int64) io.ReadCloser { return io.NopCloser(io.LimitReader(endless{}, n)) }

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A body of 32 MiB passes. A larger one is 413: before anything is sent if its length says
// so, else at the byte that is too many.
func TestTooLarge(t *testing.T) {
	everyWay(t, func(t *testing.T, client protocol) {
		var whole, asked atomic.Int64
		e := newServer(t, "http/1.1", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if n, err := io.Copy(io.Discard, r.Body); err == nil {
				whole.Add(n)
			}
		}))
		var ended results
		through := newTap(t, client, e, func(c *tap.Config) { c.Observe = ended.observe })
		c := newClient(t, client, through)
		for name, test := range map[string]struct {
			bytes, length int64
			want          int
		}{
			"the largest":          {tap.MaxBodyBytes, tap.MaxBodyBytes, 200},
			"the largest, chunked": {tap.MaxBodyBytes, -1, 200},
			"chunked":              {tap.MaxBodyBytes + 1, -1, 413},
		} {
			got := ask(t, c, through.URL, func() *http.Request {
				r := request("POST", "/", "", jsonHeader)()
				r.Body, r.ContentLength = zeros(test.bytes), test.length
				return r
			})
			if got.Status != test.want {
				t.Errorf("%s: got %d %q, want %d", name, got.Status, got.Body, test.want)
			}
		}
		if n, m := asked.Load(), whole.Load(); n != 3 || m != 2*tap.MaxBodyBytes {
			t.Errorf("got %d requests with %d bytes, want 3 with 64 MiB", n, m)
		}
		ended.want(t, tap.TooLarge, 1)
		nc := dialRaw(t, through)
		if client == "h2" {
			return
		}
		fmt.Fprintf(nc, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", tap.MaxBodyBytes+1)
		head := make([]byte, len("HTTP/1.1 413"))
		if _, err := io.ReadFull(nc, head); err != nil || string(head) != "HTTP/1.1 413" {
			t.Errorf("got %q, %v, want 413 before the body", head, err)
		}
		if n := asked.Load(); n != 3 {
			t.Errorf("got %d requests, want none for a body that is too large", n)
		}
	})
}

// dialRaw connects to s for a client that speaks HTTP/1.1 by hand.
func dialRaw(t *testing.T, s *httptest.Server) net.Conn {
	t.Helper()
	nc, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(await.Left(t)))
	return nc
}

// A body that cannot be read is the client's fault, not the engine's.
func TestBadBody(t *testing.T) {
	e := newServer(t, "http/1.1", http.HandlerFunc(mirror))
	var ended results
	through := newTap(t, "http/1.1", e, func(c *tap.Config) { c.Observe = ended.observe })
	nc := dialRaw(t, through)
	io.WriteString(nc, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\nnonsense\r\n")
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("got %s, want 400", res.Status)
	}
	ended.want(t, tap.BadBody, 1)
}

// An answer that breaks off breaks off for the client, too.
func TestAnswerCutOff(t *testing.T) {
	everyWay(t, func(t *testing.T, client protocol) {
		e := newServer(t, "http/1.1", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}))
		var ended results
		through := newTap(t, client, e, func(c *tap.Config) { c.Observe = ended.observe })
		res, err := newClient(t, client, through).Post(through.URL, "application/json", strings.NewReader("{}"))
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		if err == nil {
			t.Error("got a whole answer, want one that breaks off")
		}
		ended.want(t, tap.CutOff, 1)
	})
}

// A client that goes away takes its request from the engine.
func TestClientGone(t *testing.T) {
	everyWay(t, func(t *testing.T, client protocol) {
		begun, told := make(chan bool), make(chan bool)
		e := newServer(t, "http/1.1", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			close(begun)
			<-r.Context().Done()
			close(told)
		}))
		var ended results
		through := newTap(t, client, e, func(c *tap.Config) { c.Observe = ended.observe })
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "POST", through.URL, strings.NewReader("{}"))
		go func() { <-begun; cancel() }()
		if res, err := newClient(t, client, through).Do(r); err == nil {
			res.Body.Close()
			t.Error("got an answer, want none")
		}
		<-told
		ended.want(t, tap.ClientGone, 1)
	})
}

// load sends n requests, each with a number, from 8 goroutines. It returns how many failed.
func load(c *http.Client, url string, header http.Header, n, bytes int) (failed int64) {
	var next, failures atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(n) {
					return
				}
				r, _ := http.NewRequest("POST", fmt.Sprintf("%s/%d", url, i), strings.NewReader(strings.Repeat("x", bytes)))
				r.Header = header
				res, err := c.Do(r)
				if err != nil || res.StatusCode != http.StatusOK {
					failures.Add(1)
				}
				if err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}
		})
	}
	all.Wait()
	return failures.Load()
}

// counter is an engine that notes which requests it has seen.
type counter struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *counter) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	if c.seen == nil {
		c.seen = make(map[string]int)
	}
	c.seen[r.URL.Path]++
	c.mu.Unlock()
	io.Copy(io.Discard, r.Body)
}

func (c *counter) check(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, n := range c.seen {
		if n > 1 {
			t.Errorf("got %s %d times, want it once", path, n)
		}
	}
}

// Connections that the engine has closed while they were idle fail no request, and no
// request comes twice. Each burst comes right behind the close, before the proxy can have
// been told of it.
func TestEngineClosesIdleConnections(t *testing.T) {
	bursts := 20
	if testing.Short() {
		bursts = 3
	}
	for name, header := range map[string]http.Header{"review": jsonHeader, "idempotency key": {"Idempotency-Key": {"k"}}} {
		for size, bytes := range map[string]int{"small": 3000, "large": 100_000} {
			t.Run(name+" "+size, func(t *testing.T) {
				var seen counter
				e := newServer(t, "http/1.1", &seen)
				through := newTap(t, "http/1.1", e, nil)
				c := newClient(t, "http/1.1", through)
				for burst := range bursts {
					if failed := load(c, fmt.Sprint(through.URL, "/", burst), header, 24, bytes); failed > 0 {
						t.Errorf("burst %d: got %d of 24 requests that failed, want 0", burst, failed)
					}
					e.CloseClientConnections()
				}
				seen.check(t)
			})
		}
	}
}

// A request of which the engine may have seen anything is not sent again.
func TestNeverTwice(t *testing.T) {
	for name, header := range map[string]http.Header{
		"review":          jsonHeader,
		"idempotency key": {"Content-Type": {"application/json"}, "Idempotency-Key": {"k"}},
	} {
		everyWay(t, func(t *testing.T, client protocol) {
			var asked atomic.Int64
			var dying atomic.Bool
			e := newServer(t, "http/1.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if dying.Load() {
					asked.Add(1)
					r.Body.Read(make([]byte, 10))
					panic(http.ErrAbortHandler) // closes the connection, or resets the stream
				}
			}))
			through := newTap(t, client, e, nil)
			c := newClient(t, client, through)
			for n, length := range []int{100, 100_000} {
				dying.Store(false)
				ask(t, c, through.URL, request("POST", "/", "{}", header)) // a connection that is used again
				dying.Store(true)
				got := ask(t, c, through.URL, request("POST", "/", strings.Repeat("x", length), header))
				if seen := asked.Load(); got.Status != http.StatusBadGateway || seen != int64(n+1) {
					t.Errorf("%s of %d bytes: got %d, engine asked %d times, want 502 and %d", name, length, got.Status, seen, n+1)
				}
			}
		})
	}
}

// The log tells once that the engine fails, again when it fails otherwise, and when it
// answers again; and nothing of requests.
func TestHealthLog(t *testing.T) {
	var log lines
	// An address that nobody else is given: who asks for any port gets one of 127.0.0.1.
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	proxy, err := tap.New(tap.Config{Upstream: "http://" + address, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	answer := func() int {
		w := httptest.NewRecorder()
		proxy.ServeHTTP(w, httptest.NewRequest("POST", "/secret-of-a-request", strings.NewReader("{}")))
		return w.Code
	}
	for range 5 {
		answer()
	}
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(mirror)}
	defer server.Close()
	go server.Serve(l)
	if code := answer(); code != http.StatusOK {
		t.Errorf("got %d, want 200", code)
	}
	answer()
	server.Close()
	for range 3 {
		answer()
	}
	text := log.String()
	if strings.Count(text, "the engine does not answer") != 2 || strings.Count(text, "connection refused") != 2 || strings.Count(text, `"the engine answers again" failed=5`) != 1 {
		t.Errorf("got\n%s\nwant a line for five failures, one that it answers again, and one for the next failures", text)
	}
	if strings.Contains(text, "secret") {
		t.Errorf("got\n%s\nwant nothing of a request in it", text)
	}
}

// brokenEngine returns a tap, and its log, in front of an engine that reads a request, does
// as answer does, and closes the connection.
func brokenEngine(t *testing.T, answer func(net.Conn)) (*tap.Tap, *lines) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
				io.Copy(io.Discard, r.Body) // else the proxy may still be writing it
			}
			answer(nc)
			nc.Close()
		}
	}()
	log := new(lines)
	proxy, err := tap.New(tap.Config{Upstream: "http://" + l.Addr().String(), Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy, log
}

// A failure that differs by nothing but our port is the same, and what a client asks for is
// none: neither fills the log.
func TestHealthLogIsNotFlooded(t *testing.T) {
	proxy, log := brokenEngine(t, func(nc net.Conn) { nc.(*net.TCPConn).SetLinger(0) }) // a reset
	for range 5 {
		w := httptest.NewRecorder()
		proxy.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader("{}")))
		if w.Code != http.StatusBadGateway {
			t.Errorf("got %d, want 502", w.Code)
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "reset by peer") {
		t.Errorf("got\n%s\nwant one line for five resets", text)
	}
	for _, protocol := range []string{"forged\u00e9", "forged\u00e8"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", protocol)
		proxy.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest {
			t.Errorf("Upgrade %q: got %d, want 400", protocol, w.Code)
		}
	}
	if text := log.String(); strings.Contains(text, "forged") {
		t.Errorf("got\n%s\nwant nothing of a request in it", text)
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
