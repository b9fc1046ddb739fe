package tap

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A connection serves the next request only after one whole exchange and nothing beside
// it: the next answer is never that of another request.
func TestConnectionIsReused(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	number := func(n int32) string { return fmt.Sprintf("%sContent-Length: 1\r\n\r\n%d", ok, n) }
	for name, test := range map[string]struct {
		answer string // to the first request
		early  bool   // it comes before the body was read
		unread bool   // the first answer is closed and not read
		want   int    // connections
	}{
		"whole":                 {answer: number(1), want: 1},
		"chunked":               {answer: ok + "Transfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n1\r\n1\r\n0\r\nX-A: b\r\n\r\n", want: 1},
		"hints":                 {answer: "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + number(1), want: 1},
		"two answers":           {answer: number(1) + number(9), want: 2},
		"a byte too many":       {answer: number(1) + "9", want: 2},
		"engine will close":     {answer: ok + "Connection: close\r\nContent-Length: 1\r\n\r\n1", want: 2},
		"HTTP/1.0":              {answer: strings.Replace(number(1), "1.1", "1.0", 1), want: 2},
		"answer is not read":    {answer: ok + "Content-Length: 3\r\n\r\n", unread: true, want: 2},
		"body is not sent yet":  {answer: number(1), early: true, want: 2},
		"unexpected invitation": {answer: "HTTP/1.1 100 Continue\r\n\r\n" + number(1), want: 1},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " TLS ", secure), func(t *testing.T) {
				t.Parallel()
				e := newByHand(t, secure, func(n int32, r *http.Request) string {
					if n > 1 || !test.early {
						io.Copy(io.Discard, r.Body)
					}
					if n > 1 {
						return number(n)
					}
					return test.answer
				})
				transport := newTransport(nil)
				transport.dial = e.dial
				defer transport.close()
				for n := 1; n <= 2; n++ {
					rest, more := io.Pipe()
					defer more.Close()
					body := io.MultiReader(bytes.NewReader(make([]byte, 20<<10)), rest)
					if n > 1 || !test.early {
						more.Close()
					}
					res, err := answerOf(t, transport, body)
					if err != nil {
						t.Fatal(err)
					}
					if n > 1 || !test.unread {
						got, err := io.ReadAll(res.Body)
						if err != nil || string(got) != fmt.Sprint(n) {
							t.Errorf("got %q, %v, want the answer to request %d", got, err, n)
						}
					}
					res.Body.Close()
					if kept := len(transport.idle); n == 1 && kept != 2-test.want {
						t.Fatalf("got %d connections kept for the next request, want %d", kept, 2-test.want)
					}
				}
				if got := int(e.conns.Load()); got != test.want {
					t.Errorf("got %d connections, want %d", got, test.want)
				}
			})
		}
	}
}

// answerOf sends a chunked request.
func answerOf(t *testing.T, transport *transport, from io.Reader) (*http.Response, error) {
	t.Helper()
	r := httptest.NewRequest("POST", "/", nil)
	x := &exchange{body: body{source: io.NopCloser(from)}}
	r = r.WithContext(context.WithValue(t.Context(), exchangeKey{}, x))
	r.Body, r.ContentLength = x.body.source, -1
	return transport.RoundTrip(r)
}

// byHand is an engine that answers with what it is told to, bytes that are not of one
// answer too.
type byHand struct {
	net.Listener
	secure          *tls.Config // nil: no TLS
	conns, requests atomic.Int32
}

func newByHand(t *testing.T, secure bool, answer func(n int32, r *http.Request) string) *byHand {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	e := &byHand{Listener: l}
	if secure {
		s := httptest.NewUnstartedServer(nil)
		s.StartTLS()
		t.Cleanup(s.Close)
		e.secure = &tls.Config{Certificates: s.TLS.Certificates}
	}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			e.conns.Add(1)
			go e.serve(nc, answer)
		}
	}()
	return e
}

func (e *byHand) dial(ctx context.Context) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", e.Addr().String())
	if err != nil || e.secure == nil {
		return nc, err
	}
	return tls.Client(nc, &tls.Config{InsecureSkipVerify: true}), nil
}

// serve writes each byte of an answer in a record of its own, and all in one piece.
func (e *byHand) serve(nc net.Conn, answer func(n int32, r *http.Request) string) {
	defer nc.Close()
	below := &gathering{Conn: nc}
	over := net.Conn(below)
	if e.secure != nil {
		tc := tls.Server(below, e.secure)
		if tc.Handshake() != nil {
			return
		}
		over = tc
	}
	in := bufio.NewReader(over)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		text := answer(e.requests.Add(1), r)
		below.gathers = true
		for i := range text {
			io.WriteString(over, text[i:i+1])
		}
		below.gathers = false
		below.Write(nil)
	}
}

// gathering is a connection whose writes wait for each other.
type gathering struct {
	net.Conn
	gathers bool
	waiting []byte
}

func (g *gathering) Write(p []byte) (int, error) {
	g.waiting = append(g.waiting, p...)
	if g.gathers {
		return len(p), nil
	}
	_, err := g.Conn.Write(g.waiting)
	g.waiting = nil
	return len(p), err
}
