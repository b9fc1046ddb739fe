package serving

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
)

// dial opens a connection of TLS, for a client that does not keep to HTTP.
func (r *running) dial(t *testing.T, protocol string) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", r.Addr().String(), &tls.Config{RootCAs: r.pair.pool(), NextProtos: []string{protocol}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// closed returns what the server still sent until it closed the connection.
func closed(t *testing.T, c net.Conn) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(await.Left(t))); err != nil {
		t.Fatal(err)
	}
	sent, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the server kept the connection")
	}
	return string(sent)
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// A client that opens connections and keeps them has half of them, and loses those beyond. It
// keeps nobody at another address out.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 8
	r := start(t, Config{Handler: http.NotFoundHandler(), MaxConnections: most})
	l := r.listener.Load()
	var all []*tls.Conn
	for range most / 2 {
		all = append(all, r.dial(t, "http/1.1"))
	}
	if got := get(r.pair.client(t, false), r.url()); got == "" || strings.Contains(got, "404 page") {
		t.Errorf("one connection more of the address: got %q, want that it is closed", got)
	}
	passes(t, r.Live)
	for n := range most / 2 {
		if !l.admit(fmt.Sprint("other", n/3)) {
			t.Errorf("connection %d of other addresses is refused", n)
		}
	}
	if l.admit("another") {
		t.Errorf("got more than %d connections", most)
	}
	l.leave("other0")
	all[0].Close()
	await.Until(t, "a connection to be let in", func() bool { return strings.Contains(get(r.pair.client(t, false), r.url()), "404 page") })
}

// A handshake and a header must arrive in time, and a header must not be too large.
func TestHeaderBounds(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Handler: http.NotFoundHandler(), HeaderTimeout: time.Second})
	plain, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	closed(t, plain)
	header := r.dial(t, "http/1.1")
	send(t, header, "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
	closed(t, header)
	r.logs.wait(t, "TLS handshake error", 1)
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url(), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Large", strings.Repeat("a", 2*maxHeaderBytes))
		response, err := r.pair.client(t, http2).Do(request)
		if err != nil {
			continue // the transport of HTTP/2 knows the bound, and sends nothing
		}
		response.Body.Close()
		if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: a header of 128 KiB: got %s", name, response.Status)
		}
	}
}

// A body must arrive in time. The handler may then take as long as it likes.
func TestBodyTimeout(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const timeout = 50 * time.Millisecond
			failed := make(chan error, 1)
			r := start(t, Config{BodyTimeout: timeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err != nil {
					failed <- err
					return
				}
				time.Sleep(2 * timeout)
				if r.Context().Err() == nil {
					io.WriteString(w, "done")
				}
			})})
			client := r.pair.client(t, http2)
			await.Until(t, "a body to arrive in time, and its handler to answer", func() bool { // a slow machine may be late
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url(), io.MultiReader(strings.NewReader("chunked")))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { // of a body that was late
					select {
					case <-failed:
					default:
					}
				}()
				return do(client, request) == "done"
			})
			slow, end := io.Pipe()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url(), slow)
			if err != nil {
				t.Fatal(err)
			}
			var sent sync.WaitGroup
			sent.Go(func() { do(client, request) })
			go io.WriteString(end, "slow")
			if err := within(t, failed); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a slow body: got the error %v, want %v", err, os.ErrDeadlineExceeded)
			}
			end.Close()
			sent.Wait()
		})
	}
}

func do(client *http.Client, request *http.Request) string {
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// A client that does not read its answer does not hold a handler for ever.
func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 250 * time.Millisecond
			await.Until(t, "a request to arrive in time", func() bool {
				timeout *= 2 // it bounds the handshake too
				began, failed := make(chan struct{}, 1), make(chan error, 1)
				r := start(t, Config{RequestTimeout: timeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					began <- struct{}{}
					for block := make([]byte, 1<<20); ; {
						if _, err := w.Write(block); err != nil {
							failed <- err
							return
						}
					}
				})})
				client := r.pair.client(t, http2)
				client.Timeout = 0 // the server ends it, not the client
				response, err := client.Get(r.url())
				if err == nil {
					defer response.Body.Close()
				} else if len(began) == 0 {
					return false
				}
				within(t, failed)
				return true
			})
		})
	}
}

// A panic is an operator's business, a connection that fails is not.
func TestPanicsAreLogged(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		r := start(t, Config{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("line\nbreak") })})
		if got := get(r.pair.client(t, http2), r.url()); got == "" {
			t.Errorf("%s: got an answer", name)
		}
		r.logs.wait(t, "a handler panicked", 1)
		if got := r.logs.with("a handler panicked"); len(got) != 1 || !strings.Contains(got[0], "level=ERROR") || !strings.Contains(got[0], `line\nbreak`) {
			t.Errorf("%s: got the log lines %q", name, got)
		}
	}
}

// All connections together have only so many requests at a time.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHanging()
	r := start(t, Config{Handler: h, MaxRequests: 2})
	answers := make(chan string, 2)
	for _, http2 := range []bool{true, false} {
		go func() { answers <- get(r.pair.client(t, http2), r.url()) }()
		within(t, h.began)
	}
	if got := get(r.pair.client(t, true), r.url()); got != "too many requests at a time\n" {
		t.Errorf("a third request: got %q", got)
	}
	close(h.release)
	for range 2 {
		if got := within(t, answers); got != "" {
			t.Errorf("got %q", got)
		}
	}
	await.Until(t, "no request to be counted", func() bool { return r.inFlight.Load() == 0 })
}
