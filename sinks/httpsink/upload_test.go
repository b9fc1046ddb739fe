package httpsink

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/sinks"
)

// largeBatch does not fit into the buffers of a socket, compressed or not.
func largeBatch() sinks.Batch {
	text := make([]byte, 2<<20)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(text) // it never fails
	record := `{"x":"` + base64.StdEncoding.EncodeToString(text) + `"}`
	return batch(1, record, record, record, record)
}

// slowly reads in steps with pauses, so that Send has the answer long before the
// receiver has the body.
func slowly(body io.Reader) (n int64) {
	for {
		m, err := io.CopyN(io.Discard, body, 1<<20)
		n += m
		if err != nil {
			return n
		}
		<-time.After(drainTime / 4)
	}
}

// A receiver that answers 200 and then reads on has accepted what it could read,
// and that must be all of it.
func TestEarlyAcceptance(t *testing.T) {
	ca := testcert.NewCA(t)
	for name, receiver := range map[string]func(*testing.T) *receiver{
		"HTTP/1.1": func(t *testing.T) *receiver { return newReceiver(t, (*httptest.Server).Start) },
		"HTTP/2":   func(t *testing.T) *receiver { return tlsReceiver(t, ca, false) },
	} {
		for _, compression := range []string{compressNone, compressGzip} {
			t.Run(name+" "+compression, func(t *testing.T) {
				t.Parallel()
				read := make(chan [2]int64, 1)
				r := receiver(t)
				r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
					rc := http.NewResponseController(w)
					if req.ProtoMajor == 1 {
						if err := rc.EnableFullDuplex(); err != nil {
							t.Error(err)
						}
					}
					w.WriteHeader(http.StatusOK)
					if err := rc.Flush(); err != nil {
						t.Error(err)
					}
					read <- [2]int64{slowly(req.Body), req.ContentLength}
				})
				s := openSink(t, r.URL, func(c *Config) {
					c.Compression = compression
					if r.TLS != nil {
						c.TLS = &config.TLS{CAFile: ca.File}
					}
				})
				if err := s.Send(t.Context(), largeBatch()); err != nil {
					t.Fatalf("Send = %v, want nil: the receiver reads all", err)
				}
				if got := <-read; got[0] != got[1] {
					t.Errorf("Send = nil, and the receiver has read %d bytes of %d", got[0], got[1])
				}
			})
		}
	}
}

// serveRaw lets serve speak on each connection, and hangs up. It returns its URL.
func serveRaw(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return "http://" + l.Addr().String()
}

func TestAcceptanceOfHalf(t *testing.T) {
	t.Parallel()
	t.Run("hangs up", func(t *testing.T) {
		url := serveRaw(t, func(conn net.Conn) {
			io.CopyN(io.Discard, conn, 1000)
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		})
		s := openSink(t, url)
		f := sinks.FailureOf(s.Send(t.Context(), largeBatch()))
		if f == nil || f.Kind != sinks.Transient {
			t.Fatalf("Send = %v, want a failure of kind %v", f, sinks.Transient)
		}
	})
	t.Run("stops reading", func(t *testing.T) {
		t.Parallel()
		done := make(chan struct{})
		url := serveRaw(t, func(conn net.Conn) {
			io.CopyN(io.Discard, conn, 1000)
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			<-done
		})
		defer close(done)
		givesUp(t, func(timeout func(*Config)) sinks.Sink { return openSink(t, url, timeout) }, largeBatch(),
			"answered 200 OK before it had read the whole request")
	})
}

// 200 in place of 100 Continue is an answer to a request without its body. The
// next request does not ask.
func TestAcceptanceInPlaceOfContinue(t *testing.T) {
	asked := make(chan bool, 3)
	url := serveRaw(t, func(conn net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		asks := req.Header.Get("Expect") != ""
		asked <- asks
		if len(asked) == 1 {
			return
		}
		const answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
		if !asks {
			io.Copy(io.Discard, req.Body)
			io.WriteString(conn, answer)
			return
		}
		io.WriteString(conn, answer)
		if n, _ := io.Copy(io.Discard, req.Body); n > 0 { // until the sink hangs up
			t.Error("the body came without a word of the receiver")
		}
	})
	s := openSink(t, url)
	waitForContinue(s)
	sendFails(t, s, sinks.Transient, "the connection was closed")
	sendFails(t, s, sinks.Transient, "answered 200 OK before it had read the whole request")
	sendWorks(t, s)
	for i, want := range []bool{false, true, false} {
		if got := <-asked; got != want {
			t.Errorf("request %d asked first: %v, want %v", i, got, want)
		}
	}
}

// net/http makes a request again on another connection, where an answer in place of 100 Continue
// accepts nothing, although the try before has read the whole body.
func TestEachTryCountsItsOwnBytes(t *testing.T) {
	const text = "the whole body"
	open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	first, _ := open()
	req := (&http.Request{Body: first, GetBody: open, ContentLength: int64(len(text))}).WithContext(t.Context())
	u := &upload{size: req.ContentLength, result: make(chan httptrace.WroteRequestInfo, 1)}
	req = u.watch(req)
	u.begin()
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		t.Fatal(err)
	}
	u.end(httptrace.WroteRequestInfo{})
	body, err := req.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	u.begin()
	u.end(httptrace.WroteRequestInfo{})
	if err := u.wait(t.Context()); !errors.Is(err, errNotWhole) {
		t.Errorf("got error %v of a try that has sent nothing, want %v", err, errNotWhole)
	}
	u.begin()
	if _, err := io.Copy(io.Discard, body); err != nil {
		t.Fatal(err)
	}
	u.end(httptrace.WroteRequestInfo{})
	if err := u.wait(t.Context()); err != nil {
		t.Errorf("got error %v of a try that has sent all, want nil", err)
	}
}

// A receiver answers in the middle of a body, and reads on when Send has returned and its
// bytes are another batch's: it gets none of those.
func TestBytesAreOursAgainAfterAnEarlyAnswer(t *testing.T) {
	over, rest := make(chan struct{}), make(chan []byte, 1)
	url := serveRaw(t, func(conn net.Conn) {
		io.CopyN(io.Discard, conn, 1000)
		io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy")
		<-over
		got, _ := io.ReadAll(conn) // its end may be a reset
		rest <- got
	})
	s := openSink(t, url)
	b := batch(1, `{"a":"`+strings.Repeat("x", 32<<20)+`"}`) // more than the sockets hold
	f := sinks.FailureOf(s.Send(t.Context(), b))
	record := b.Items[0].Record
	for i := range record {
		record[i] = '!'
	}
	close(over)
	if f == nil || f.Kind != sinks.Transient {
		t.Errorf("Send = %v, want a failure of kind %v", f, sinks.Transient)
	}
	if got := <-rest; bytes.IndexByte(got, '!') >= 0 || len(got) >= len(record)-1000 {
		t.Errorf("the receiver reads %d bytes, '!' at %d; want a part of the body and none of what was written over it", len(got), bytes.IndexByte(got, '!'))
	}
}
