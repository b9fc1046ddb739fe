package serving

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
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

// A client that opens connections and sends slowly loses its own, and keeps nobody out.
func TestSlowClientsGiveWay(t *testing.T) {
	t.Parallel()
	const most = 8
	h := newHanging()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	mux.Handle("/long", h)
	r := start(t, Config{Handler: mux, MaxConnections: most})
	long := make(chan string, 1)
	go func() { long <- get(r.pair.client(t, false), r.url()+"long") }()
	within(t, h.began)
	slow := []string{"", "POST / HTTP/1.1\r\nHost: a\r\nContent-Le", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nslow"}
	var all []*tls.Conn
	for i := range 3 * most {
		c := r.dial(t, "http/1.1")
		send(t, c, slow[i%len(slow)])
		all = append(all, c)
	}
	passes(t, r.Ready)
	passes(t, r.Live)
	if got := get(r.pair.client(t, true), r.url()); got != "" {
		t.Errorf("another client: got %q", got)
	}
	for _, c := range all[:2*most] {
		closed(t, c)
	}
	close(h.release)
	if got := within(t, long); got != "" {
		t.Errorf("a request that has arrived whole: got %q", got)
	}
}

// With a whole request on each connection nobody gives way.
func TestConnectionsAtWorkStay(t *testing.T) {
	t.Parallel()
	h := newHanging()
	r := start(t, Config{Handler: h, MaxConnections: 2})
	answers := make(chan string, 2)
	for _, http2 := range []bool{true, false} {
		go func() { answers <- get(r.pair.client(t, http2), r.url()) }()
		within(t, h.began)
	}
	if got := get(r.pair.client(t, true), r.url()); got == "" {
		t.Error("a third connection was let in")
	}
	errorIs(t, probe(t, r.Ready), "TLS handshake")
	passes(t, r.Live)
	close(h.release)
	for range 2 {
		if got := within(t, answers); got != "" {
			t.Errorf("a request that has arrived whole: got %q", got)
		}
	}
}

func TestVictim(t *testing.T) {
	t.Parallel()
	at := time.Now()
	newConn := func(address string, whole int, age time.Duration) *conn {
		return &conn{address: address, whole: whole, since: at.Add(-age)}
	}
	for name, tt := range map[string]struct {
		conns []*conn
		want  int // index; -1: nobody
	}{
		"none":                         {nil, -1},
		"all at work":                  {[]*conn{newConn("a", 1, 1), newConn("b", 2, 2)}, -1},
		"the oldest":                   {[]*conn{newConn("a", 0, 1), newConn("a", 0, 3), newConn("a", 0, 2)}, 1},
		"of the address with most":     {[]*conn{newConn("a", 0, 9), newConn("b", 0, 1), newConn("b", 0, 2)}, 2},
		"not one at work":              {[]*conn{newConn("a", 1, 9), newConn("a", 0, 1), newConn("a", 2, 8)}, 1},
		"its others at work count too": {[]*conn{newConn("a", 0, 9), newConn("b", 1, 1), newConn("b", 0, 2)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := newListener(nil, 1, 1)
			for _, c := range tt.conns {
				l.conns[c] = struct{}{}
			}
			var want *conn
			if tt.want >= 0 {
				want = tt.conns[tt.want]
			}
			if got := l.victim(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// A handshake and a header must arrive in time, and a header must not be too large.
func TestHeaderBounds(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Handler: http.NotFoundHandler(), HeaderTimeout: time.Second, MaxHeaderBytes: 4 << 10})
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
		request.Header.Set("X-Large", strings.Repeat("a", 20<<10))
		response, err := r.pair.client(t, http2).Do(request)
		if err != nil {
			continue // the transport of HTTP/2 knows the bound, and sends nothing
		}
		response.Body.Close()
		if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: a header of 20 KiB: got %s", name, response.Status)
		}
	}
}

// A body must arrive in time. The handler may then take as long as it likes.
func TestBodyTimeout(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 100 * time.Millisecond
			await.Until(t, "a whole body to arrive in time", func() bool {
				timeout *= 2 // where a machine is slow the whole body is late too
				return slowHandler(t, http2, timeout)
			})
			failed := make(chan error, 1)
			r := start(t, Config{BodyTimeout: 50 * time.Millisecond, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				failed <- err
			})})
			slow, end := io.Pipe()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url(), slow)
			if err != nil {
				t.Fatal(err)
			}
			client := r.pair.client(t, http2)
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

// slowHandler wants a handler to answer that takes longer than timeout. It returns false if a
// body, which comes at once, was late.
func slowHandler(t *testing.T, http2 bool, timeout time.Duration) bool {
	late := make(chan error, 2)
	r := start(t, Config{BodyTimeout: timeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			late <- err
			return
		}
		select {
		case <-time.After(timeout + timeout/5):
			io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	})})
	client := r.pair.client(t, http2)
	for range 2 { // the second one on the connection of the first
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url(), io.MultiReader(strings.NewReader("chunked")))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Expect", "100-continue")
		got := do(client, request)
		if len(late) > 0 {
			return false
		}
		if got != "done" {
			t.Errorf("a slow handler: got %q", got)
		}
	}
	return true
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

// frames of HTTP/2 (RFC 9113), as far as the tests need them.
const (
	frameData      = 0
	frameHeaders   = 1
	frameReset     = 3
	frameSettings  = 4
	frameGoAway    = 7
	flagEndStream  = 1
	flagEndHeaders = 4
	refusedStream  = 7 // an error code
)

type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func (f frame) bytes() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(f.payload))<<8|uint32(f.kind))
	b = binary.BigEndian.AppendUint32(append(b, f.flags), f.stream)
	return append(b, f.payload...)
}

func readFrame(r io.Reader) (f frame, err error) {
	var header [9]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, err
	}
	f = frame{kind: header[3], flags: header[4], stream: binary.BigEndian.Uint32(header[5:])}
	f.payload = make([]byte, binary.BigEndian.Uint32(header[:])>>8)
	_, err = io.ReadFull(r, f.payload)
	return f, err
}

// request opens a stream: with its end, GET, without, POST whose body is to follow.
func request(stream uint32, end bool) []byte {
	get := []byte{0x82, 0x87, 0x84, 0x41, 1, 'a'} // :method GET, :scheme https, :path /, :authority a
	flags := byte(flagEndHeaders | flagEndStream)
	if !end {
		get[0], flags = 0x83, flagEndHeaders // POST
	}
	return frame{frameHeaders, flags, stream, get}.bytes()
}

func reset(stream uint32) []byte {
	return frame{frameReset, 0, stream, []byte{0, 0, 0, 8}}.bytes() // CANCEL
}

// http2 opens a connection of HTTP/2.
func (r *running) http2(t *testing.T) *tls.Conn {
	t.Helper()
	c := r.dial(t, "h2")
	if err := c.SetDeadline(time.Now().Add(await.Left(t))); err != nil {
		t.Fatal(err)
	}
	send(t, c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+string(frame{kind: frameSettings}.bytes()))
	return c
}

// One connection has only so many requests at a time.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHanging()
	r := start(t, Config{Handler: h, MaxStreams: 2})
	c := r.http2(t)
	in := bufio.NewReader(c)
	for _, stream := range []uint32{1, 3, 5} {
		send(t, c, string(request(stream, true)))
	}
	for {
		f, err := readFrame(in)
		if err != nil {
			t.Fatal(err)
		}
		if f.kind == frameReset {
			if code := binary.BigEndian.Uint32(f.payload); f.stream != 5 || code != refusedStream {
				t.Errorf("got error %d on stream %d, want %d on 5", code, f.stream, refusedStream)
			}
			break
		}
	}
	within(t, h.began)
	within(t, h.began)
	if len(h.began) != 0 {
		t.Error("a third handler ran")
	}
}

// All connections together have only so many requests at a time. The one that has most
// gives way, so that many streams that stall keep nobody out.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHanging()
	r := start(t, Config{Handler: h, MaxRequests: 4})
	few, many := r.http2(t), r.http2(t)
	send(t, few, string(request(1, true)))
	within(t, h.began)
	for _, stream := range []uint32{1, 3, 5} {
		send(t, many, string(request(stream, false)))
		within(t, h.began)
	}
	send(t, few, string(request(3, true)))
	within(t, h.began)
	closed(t, many)
	close(h.release)
	in, answered := bufio.NewReader(few), 0
	for answered < 2 {
		f, err := readFrame(in)
		if err != nil {
			t.Fatalf("after %d answers on the connection that has few requests: %v", answered, err)
		}
		if f.kind == frameHeaders {
			answered++
		}
	}
	l := r.listener.Load()
	for _, c := range []*tls.Conn{few, many} {
		c.Close()
	}
	await.Until(t, "no request and no connection to be left", func() bool { // a handler returns after its answer
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.requests == 0 && len(l.conns) == 0
	})
}

// A client that opens streams and resets them gets no more handlers than MaxStreams at a
// time, and nobody else notices.
func TestRapidReset(t *testing.T) {
	t.Parallel()
	const most = 4
	var running, highest atomic.Int64
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {
		n := running.Add(1)
		defer running.Add(-1)
		for {
			if was := highest.Load(); n <= was || highest.CompareAndSwap(was, n) {
				break
			}
		}
		<-release // deaf to the reset, as a handler at work is
	})
	mux.HandleFunc("/other", func(http.ResponseWriter, *http.Request) {})
	r := start(t, Config{Handler: mux, MaxStreams: most})
	c := r.http2(t)
	for stream := uint32(1); stream < 2000; stream += 2 {
		if _, err := c.Write(bytes.Join([][]byte{request(stream, true), reset(stream)}, nil)); err != nil {
			break // the server has had enough
		}
	}
	closed(t, c)
	if got := get(r.pair.client(t, true), r.url()+"other"); got != "" {
		t.Errorf("another client: got %q", got)
	}
	close(release)
	r.cancel()
	r.half(t)
	r.half(t)
	errorIs(t, within(t, r.result))
	if got := highest.Load(); got > most {
		t.Errorf("%d handlers at a time, want at most %d", got, most)
	}
}

// A reset in the middle of a body ends the handler's read, and the connection goes on.
func TestResetInMidBody(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	r := start(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil {
			failed <- fmt.Errorf("after %q: %w", got, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})})
	c := r.http2(t)
	half := frame{kind: frameData, stream: 1, payload: []byte("half")}.bytes()
	send(t, c, string(bytes.Join([][]byte{request(1, false), half, reset(1), request(3, true)}, nil)))
	errorIs(t, within(t, failed), `after "half"`)
	in := bufio.NewReader(c)
	for {
		f, err := readFrame(in)
		if err != nil || f.kind == frameGoAway {
			t.Fatalf("got frame %+v, %v", f, err)
		}
		if f.kind == frameHeaders && f.stream == 3 {
			break
		}
	}
	r.listener.Load().mu.Lock()
	defer r.listener.Load().mu.Unlock()
	for c := range r.listener.Load().conns {
		if c.whole != 0 {
			t.Errorf("%d requests are counted as at work", c.whole)
		}
	}
}
