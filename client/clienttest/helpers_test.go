package clienttest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/client/internal/testleak"
	"github.com/docket-export/docket/decision/stream"
)

func TestMain(m *testing.M) { testleak.Main(m) }

func newExporter(t *testing.T) *clienttest.Exporter {
	e := clienttest.New()
	t.Cleanup(e.Close)
	return e
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), await.Left(t))
	t.Cleanup(cancel)
	return ctx
}

// peer is a producer that does what the test says, line by line.
type peer struct {
	t  *testing.T
	nc net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, e *clienttest.Exporter) *peer {
	t.Helper()
	nc, err := e.Dial(t.Context()) // also in a bubble, where nothing needs a deadline
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, nc)
}

func newPeer(t *testing.T, nc net.Conn) *peer {
	t.Helper()
	t.Cleanup(func() { nc.Close() })
	return &peer{t, nc, bufio.NewReader(nc)}
}

// greet dials and says hello; it does not read the answer.
func greet(t *testing.T, e *clienttest.Exporter, producer string, next uint64) *peer {
	t.Helper()
	p := dial(t, e)
	p.write(string(stream.Hello{Producer: producer, Next: next}.Append(nil)))
	return p
}

func (p *peer) write(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.nc, text); err != nil {
		p.t.Fatalf("write %q: %v", text, err)
	}
}

// send writes records n to m.
func (p *peer) send(n, m int) {
	p.t.Helper()
	for ; n <= m; n++ {
		p.write(record(n) + "\n")
	}
}

func record(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }

// expect reads replies, in the words of say.
func (p *peer) expect(want ...string) {
	p.t.Helper()
	for _, w := range want {
		line, err := p.in.ReadBytes('\n')
		if err != nil {
			p.t.Fatalf("got %v, want %q", err, w)
		}
		reply, err := stream.ParseReply(line[:len(line)-1])
		if got := say(reply); err != nil || got != w {
			p.t.Fatalf("got %q, %v, want %q", got, err, w)
		}
	}
}

// expectAck reads acks until one is for n.
func (p *peer) expectAck(n uint64) {
	p.t.Helper()
	for {
		line, err := p.in.ReadBytes('\n')
		if err != nil {
			p.t.Fatalf("got %v, want ack %d", err, n)
		}
		reply, err := stream.ParseReply(line[:len(line)-1])
		ack, ok := reply.(stream.Ack)
		if err != nil || !ok || ack.Through > n {
			p.t.Fatalf("got %q, %v, want ack %d", line, err, n)
		}
		if ack.Through == n {
			return
		}
	}
}

func (p *peer) expectEnd() {
	p.t.Helper()
	if line, err := p.in.ReadBytes('\n'); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		p.t.Fatalf("got %q, %v, want the end of the connection", line, err)
	}
}

func say(r stream.Reply) string {
	switch r := r.(type) {
	case stream.Answer:
		return fmt.Sprintf("acked %d", r.Acked)
	case stream.Ack:
		return fmt.Sprintf("ack %d", r.Through)
	case stream.Refused:
		return strings.TrimSpace(fmt.Sprintf("refused %d %s %s", r.Seq, r.Reason, r.Detail))
	case stream.Closing:
		return "closing: " + r.Reason
	}
	return fmt.Sprintf("%T", r)
}

// checkLines checks what is stored: "producer/number text", and the reason in
// front of what is refused.
func checkLines(t *testing.T, e *clienttest.Exporter, want ...string) {
	t.Helper()
	var got []string
	for _, l := range append(e.Lines(), e.Refused()...) {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s/%d %s", l.Reason, l.Producer, l.Number, l.Text)))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("lines: got %q, want %q", got, want)
	}
}

// checkViolations checks that there is one with each text in it, and no other.
func checkViolations(t *testing.T, e *clienttest.Exporter, want ...string) {
	t.Helper()
	got := e.Violations()
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		ok = ok && strings.Contains(got[i].Error(), want[i])
	}
	if !ok {
		t.Errorf("violations: got %q, want %q", got, want)
	}
}

// waitFor waits for something that the exporter does.
func waitFor(t *testing.T, e *clienttest.Exporter, what string, done func() bool) {
	t.Helper()
	if err := e.WaitUntil(within(t), done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
