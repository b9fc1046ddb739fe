package clienttest_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
)

func TestStoresAndAcks(t *testing.T) {
	e := newExporter(t)
	p := greet(t, e, "p", 1)
	p.expect("acked 0")
	p.write("{\"n\":1}\r\n\n  \n {\"n\":2} \n")
	p.expectAck(2)
	checkLines(t, e, `p/1 {"n":1}`, `p/2  {"n":2}`)
	p.nc.Close()
	again := greet(t, e, "p", 2)
	again.expect("acked 2")
	again.send(2, 2) // other white space: not the same bytes
	again.send(3, 3)
	again.expectAck(3)
	checkLines(t, e, `p/1 {"n":1}`, `p/2  {"n":2}`, `p/3 {"n":3}`)
	checkViolations(t, e, `line 2 was  {"n":2}  and is {"n":2} now`)
}

func TestPlainMode(t *testing.T) {
	e := newExporter(t)
	p := dial(t, e)
	p.write("{\"a\":1}\n{\"b\"")
	p.write(":2}")
	p.nc.Close()
	if err := e.Wait(within(t), 2); err != nil {
		t.Fatal(err)
	}
	checkLines(t, e, `/0 {"a":1}`, `/0 {"b":2}`)
	checkViolations(t, e)
}

// What is wrong with a line or a hello is a violation; the exporter does what a
// real one does.
func TestViolations(t *testing.T) {
	long := `{"pad":"` + strings.Repeat("x", 1<<20) + `"}`
	tests := map[string]struct {
		hello, lines string
		replies      []string
		violations   []string
	}{
		"broken hello": {`{"docket":{"version":1,"producer":"p","next":0}}`, "", []string{"closing: broken hello: next must be a whole number of at least 1, not 0"}, []string{"broken hello"}},
		"second hello": {"", `{"docket":{"version":1,"producer":"p","next":1}}` + "\n", []string{"acked 0", "closing: broken hello: a connection has only one, on its first line"}, []string{"second hello"}},
		"no JSON":      {"", "hello\n", []string{"acked 0", "refused 1 InvalidJSON not valid JSON", "ack 1"}, []string{"line 1: not valid JSON"}},
		"no UTF-8":     {"", "{\"a\":\"\xff\"}\n", []string{"acked 0", "refused 1 InvalidJSON not UTF-8", "ack 1"}, []string{"not UTF-8"}},
		"no object":    {"", "[1]\n", []string{"acked 0", "refused 1 NotObject not a JSON object", "ack 1"}, []string{"not a JSON object"}},
		"too long":     {"", long + "\n", []string{"acked 0", "refused 1 TooLarge 1048586 bytes are more than the limit of 1048576", "ack 1"}, []string{"1048586 bytes"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := newExporter(t)
			p := dial(t, e)
			if tt.hello == "" {
				tt.hello = `{"docket":{"version":1,"producer":"p","next":1}}`
			}
			go p.nc.Write([]byte(tt.hello + "\n" + tt.lines))
			p.expect(tt.replies...)
			checkViolations(t, e, tt.violations...)
		})
	}
}

func TestGapOfAKnownProducer(t *testing.T) {
	e := newExporter(t)
	p := greet(t, e, "p", 5) // nobody knows p: that is no gap
	p.expect("acked 0")
	p.send(5, 6)
	p.expectAck(6)
	greet(t, e, "p", 9).expect("acked 6")
	checkViolations(t, e, "producer p: said hello with next 9 after line 6")
}

func TestTakeOver(t *testing.T) {
	e := newExporter(t)
	older := greet(t, e, "p", 1)
	older.expect("acked 0")
	newer := greet(t, e, "p", 1)
	newer.expect("acked 0")
	older.expect("closing: another connection of this producer has taken over")
	newer.send(1, 1)
	newer.expectAck(1)
	checkViolations(t, e)
}

func TestServe(t *testing.T) {
	e := newExporter(t)
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- e.Serve(ln) }()
	nc, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, nc)
	e.After(2, e.Hold)
	p.write(`{"docket":{"version":1,"producer":"p","next":1}}` + "\n")
	p.expect("acked 0")
	p.send(1, 2)
	// The acks owed come after the half close.
	if err := nc.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for {
		if line, err := p.in.ReadBytes('\n'); errors.Is(err, os.ErrDeadlineExceeded) {
			break
		} else if err != nil || string(line) != "{\"ack\":1}\n" {
			t.Fatalf("while line 2 is held: got %q, %v, want at most ack 1", line, err)
		}
	}
	if err := nc.SetReadDeadline(time.Now().Add(await.Left(t))); err != nil {
		t.Fatal(err)
	}
	e.Release()
	p.expectAck(2)
	p.expectEnd()
	e.Close()
	if err := <-served; err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
	if _, err := e.Dial(within(t)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial after Close: got %v, want ECONNREFUSED", err)
	}
}

func TestWaitSaysHowMany(t *testing.T) {
	e := newExporter(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := e.Wait(ctx, 2)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "0 lines stored, waited for 2") {
		t.Errorf("got %v, want it to say that 0 of 2 are stored", err)
	}
}
