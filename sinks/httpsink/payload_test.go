package httpsink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/sinks"
)

func TestPayload(t *testing.T) {
	p := newPayload([]byte("0123456789"))
	first, again := p.body(), p.body()
	if got, err := io.ReadAll(first); string(got) != "0123456789" || err != nil {
		t.Errorf("read %q, %v, want the whole payload", got, err)
	}
	four := make([]byte, 4)
	if n, err := again.Read(four); n != 4 || err != nil {
		t.Fatalf("Read = %d, %v, want 4", n, err)
	}
	p.release()
	if n, err := again.Read(four); n != 0 || !errors.Is(err, errReleased) {
		t.Errorf("Read after release = %d, %v, want %v", n, err, errReleased)
	}
}

// A receiver has taken a part of a body, and then nothing, when the attempt ends: the
// loan ends too, at once, and what the receiver reads later is still the old bytes.
func TestReleaseEndsAWrite(t *testing.T) {
	ours, theirs := socketPair(t)
	data := bytes.Repeat([]byte("x"), 64<<20) // more than the sockets hold
	p := newPayload(data)
	written := make(chan error, 1)
	go func() {
		n, err := p.body().(*payloadReader).writeTo(ours, int64(len(data)))
		if n == int64(len(data)) {
			t.Error("all of the body fits into the sockets")
		}
		written <- err
	}()
	if _, err := io.ReadFull(theirs, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}

	released := make(chan struct{})
	go func() { defer close(released); p.release() }()
	select {
	case <-released:
	case <-time.After(await.Left(t)):
		t.Fatal("release does not return: it waits for the receiver")
	}
	for i := range data {
		data[i] = '!'
	}
	if err := <-written; !errors.Is(err, errReleased) {
		t.Errorf("the write ended with %v, want %v: its connection must not be used again", err, errReleased)
	}
	ours.Close()
	rest, err := io.ReadAll(theirs)
	if err != nil || len(bytes.Trim(rest, "x")) > 0 {
		t.Errorf("the receiver reads other bytes than were lent, and then %v", err)
	}
	if _, err := p.body().(*payloadReader).writeTo(ours, 1); !errors.Is(err, errReleased) {
		t.Errorf("a write after release = %v, want %v", err, errReleased)
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
	b.Lines = append(bytes.Clone(b.Items[0].Record), '\n')
	f := sinks.FailureOf(s.Send(t.Context(), b))
	for i := range b.Lines {
		b.Lines[i] = '!'
	}
	close(over)
	if f == nil || f.Kind != sinks.Transient {
		t.Errorf("Send = %v, want a failure of kind %v", f, sinks.Transient)
	}
	if got := <-rest; bytes.IndexByte(got, '!') >= 0 || len(got) >= len(b.Lines)-1000 {
		t.Errorf("the receiver reads %d bytes, '!' at %d; want a part of the body and none of what was written over it", len(got), bytes.IndexByte(got, '!'))
	}
}

// stuckConn is in a write until it is let go.
type stuckConn struct {
	net.Conn
	ended chan struct{}
	cut   bool
}

func (c *stuckConn) Write(p []byte) (int, error) {
	<-c.ended
	return len(p), nil
}

func (c *stuckConn) SetWriteDeadline(time.Time) error {
	c.cut = true
	return nil
}

// The bytes are not given back before the last write from them has returned, and one
// that has come to its end nevertheless does not count.
func TestReleaseWaitsForWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPayload([]byte("0123456789")), &stuckConn{ended: make(chan struct{})}
		var written error
		var released bool
		go func() { _, written = p.body().(*payloadReader).writeTo(conn, 10) }()
		synctest.Wait()
		go func() { p.release(); released = true }()
		synctest.Wait()
		if !conn.cut || released {
			t.Errorf("while a write is under way: told to end: %v, released: %v; want true and false", conn.cut, released)
		}
		close(conn.ended)
		synctest.Wait()
		if !released || !errors.Is(written, errReleased) {
			t.Errorf("after the write: released: %v, and it returned %v; want true and %v", released, written, errReleased)
		}
	})
}

// socketPair returns the two ends of a connection.
func socketPair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if ours, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	if theirs, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// Lines go to the socket from where they lie, whatever net/http does between.
func TestLinesAreNotCopied(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	s := openSink(t, r.URL)
	b := batch(1, `{"a":"`+strings.Repeat("x", 1<<20)+`"}`)
	b.Lines = append(bytes.Clone(b.Items[0].Record), '\n')
	watch := &lastWrite{}
	s.(*sink).wire.transport().DialContext = widely(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return watchedConn{conn, watch}, err
	})
	if err := s.Send(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := r.accepted(); len(got) != 1 || got[0] != string(b.Items[0].Record) {
		t.Errorf("the receiver holds %d records, want the one that was sent", len(got))
	}
	last := watch.get()
	if len(last) < 1<<19 || &last[len(last)-1] != &b.Lines[len(b.Lines)-1] {
		t.Errorf("the last write was of %d bytes, want one of the rest of %d, from where they lie", len(last), len(b.Lines))
	}
}

// lastWrite is what was written last.
type lastWrite struct {
	mu sync.Mutex
	p  []byte // guarded by mu
}

func (w *lastWrite) get() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.p
}

type watchedConn struct {
	net.Conn
	last *lastWrite
}

func (c watchedConn) Write(p []byte) (int, error) {
	c.last.mu.Lock()
	c.last.p = p
	c.last.mu.Unlock()
	return c.Conn.Write(p)
}

// With compression Lines are what is compressed, and with other encodings they are not
// the body.
func TestLinesByEncoding(t *testing.T) {
	for _, compression := range []string{compressNone, compressGzip, compressZstd} {
		for _, encoding := range []string{"ndjson", "jsonArray"} {
			t.Run(encoding+" "+compression, func(t *testing.T) {
				r := newReceiver(t, (*httptest.Server).Start)
				if encoding == "jsonArray" {
					r.decode = func(body []byte) ([]string, error) {
						return strings.Split(strings.Trim(string(body), "[]"), ","), nil
					}
				}
				s := openSink(t, r.URL, func(c *Config) { c.Encoding, c.Compression = encoding, compression })
				b := batch(1, `{"a":1}`, `{"a":2}`)
				b.Lines = []byte("{\"a\":1}\n{\"a\":2}\n")
				for range 2 {
					if err := s.Send(t.Context(), b); err != nil {
						t.Fatal(err)
					}
				}
				if got := strings.Join(r.accepted(), " "); got != `{"a":1} {"a":2} {"a":1} {"a":2}` {
					t.Errorf("the receiver holds %s", got)
				}
			})
		}
	}
}
