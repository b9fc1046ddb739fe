package httpsink

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// receiver is a destination on a real socket. It keeps the records it accepts.
type receiver struct {
	*httptest.Server
	decode   func(body []byte) ([]string, error) // of what is accepted; lines unless set
	mu       sync.Mutex
	answer   http.HandlerFunc // instead of accepting, when set
	records  []string
	bodies   []string // of the requests accepted, as they came
	requests []*http.Request
	conns    int // that were opened
	closed   chan struct{}
}

// newReceiver starts a receiver; start is (*httptest.Server).Start or StartTLS.
func newReceiver(t *testing.T, start func(*httptest.Server)) *receiver {
	t.Helper()
	r := &receiver{closed: make(chan struct{}, 100)}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			r.mu.Lock()
			defer r.mu.Unlock()
			r.conns++
		case http.StateClosed:
			r.closed <- struct{}{}
		}
	}
	start(r.Server)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, req)
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		answer(w, req)
		return
	}
	r.accept(req)
}

// read returns the body of a request and the records in it. A body that it cannot
// read is one that was cut, and ends the connection.
func (r *receiver) read(req *http.Request) (body string, records []string) {
	data, err := io.ReadAll(req.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	plain, err := decompress(data, req.Header.Get("Content-Encoding"))
	if err != nil {
		panic(err)
	}
	decode := r.decode
	if decode == nil {
		decode = decodeLines
	}
	if records, err = decode(plain); err != nil {
		panic(err)
	}
	return string(data), records
}

func (r *receiver) keep(body string, records []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, body)
	r.records = append(r.records, records...)
}

// accept reads a request and keeps what is in it.
func (r *receiver) accept(req *http.Request) { r.keep(r.read(req)) }

func decompress(body []byte, coding string) ([]byte, error) {
	switch coding {
	case "":
		return body, nil
	case "gzip":
		plain, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(plain)
	case "zstd":
		plain, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer plain.Close()
		return plain.DecodeAll(body, nil)
	}
	return nil, errors.New("unknown Content-Encoding " + coding)
}

// decodeLines takes newline-delimited JSON apart; every line ends in a newline.
func decodeLines(body []byte) ([]string, error) {
	lines := strings.SplitAfter(string(body), "\n")
	last := len(lines) - 1
	if lines[last] != "" {
		return nil, fmt.Errorf("the body ends in %q, want a newline", lines[last])
	}
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\n")
	}
	return lines[:last], nil
}

func (r *receiver) setAnswer(answer http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) accepted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records)
}

func (r *receiver) lastBody(t *testing.T) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bodies) == 0 {
		t.Fatal("the receiver has accepted no body")
	}
	return r.bodies[len(r.bodies)-1]
}

func (r *receiver) requestCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

func (r *receiver) lastRequest(t *testing.T) *http.Request {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.requests) == 0 {
		t.Fatal("the receiver got no request")
	}
	return r.requests[len(r.requests)-1]
}

func (r *receiver) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns
}

// status answers with code, the headers given in pairs, and text.
func status(code int, text string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, text)
	}
}

// cut closes the connection instead of answering.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// openSink opens a sink on url, with the defaults changed by change.
func openSink(t testing.TB, url string, change ...func(*Config)) sinks.Sink {
	t.Helper()
	c := defaultConfig()
	c.URL = url
	for _, f := range change {
		f(c)
	}
	if err := c.Validate().Err(); err != nil {
		t.Fatalf("Validate = %v, want nothing wrong", err)
	}
	s, err := c.Open(context.Background(), sinks.Env{Name: "siem", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("Open = %v, want nil", err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func withTimeout(d time.Duration) func(*Config) {
	return func(c *Config) { c.Timeout = config.Duration(d) }
}

func withTLS(t config.TLS) func(*Config) {
	return func(c *Config) { c.TLS = &t }
}

func batch(first uint64, records ...string) sinks.Batch {
	b := sinks.Batch{Queue: "6f0c2f0e-5a0e-4c3e-9d57-3a5f1f6a7b10"}
	for i, r := range records {
		b.Items = append(b.Items, sinks.Item{Seq: first + uint64(i), Source: "webhook", Received: time.Now().UTC(), Record: []byte(r)})
	}
	return b
}

// givesUp wants Send to fail as Transient with text because its timeout is over. Where the
// machine is too slow for what comes before that, it is tried again with twice the time.
func givesUp(t *testing.T, open func(timeout func(*Config)) sinks.Sink, b sinks.Batch, text string) {
	t.Helper()
	timeout := 200 * time.Millisecond
	await.Until(t, "Send to fail with "+text, func() bool {
		timeout *= 2
		err := open(withTimeout(timeout)).Send(t.Context(), b)
		if f := sinks.FailureOf(err); f == nil || f.Kind != sinks.Transient {
			t.Fatalf("Send = %v, want a failure of kind %v", err, sinks.Transient)
		}
		return strings.Contains(err.Error(), text)
	})
}

// sendFails wants Send to fail with kind and with every one of texts.
func sendFails(t *testing.T, s sinks.Sink, kind sinks.Kind, texts ...string) *sinks.Failure {
	t.Helper()
	err := s.Send(context.Background(), batch(1, `{"a":1}`))
	if err == nil {
		t.Fatalf("Send = nil, want a failure of kind %v", kind)
	}
	f := sinks.FailureOf(err)
	if f.Kind != kind {
		t.Errorf("Send failed as %v (%v), want %v", f.Kind, err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("Send failed with %q, want it to contain %q", err, text)
		}
	}
	return f
}
