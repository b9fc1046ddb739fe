package streamsource

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/streamsource/streamtest"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// TestMain runs the tests, or the second process that some of them need.
func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		runChild(path)
		return
	}
	goleak.VerifyTestMain(m)
}

// running is a source that serves producers.
type running struct {
	*streamtest.Intake
	t      *testing.T
	path   string
	source sources.Source
	stop   context.CancelFunc
	ended  chan error
}

const testLimit = 64 << 10

// start runs a source with an intake in memory until the test ends.
func start(t *testing.T, limit int) *running {
	t.Helper()
	r := &running{Intake: streamtest.New(), t: t, path: filepath.Join(t.TempDir(), "s"), ended: make(chan error, 1)}
	c := &Config{Path: r.path, Mode: "0660"}
	r.source = c.New(sources.Env{Name: "test", MaxRecordBytes: limit, Log: slog.New(slog.DiscardHandler)})
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	ready := make(chan struct{})
	go func() { r.ended <- r.source.Run(ctx, r, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-r.ended:
		t.Fatalf("Run: %v", err)
	}
	t.Cleanup(func() {
		r.Release()
		r.stopAndWait()
		r.Close()
	})
	return r
}

// stopAndWait ends the source; a second call does nothing.
func (r *running) stopAndWait() {
	r.t.Helper()
	r.stop()
	select {
	case err, first := <-r.ended:
		if first {
			close(r.ended)
		}
		if err != nil {
			r.t.Errorf("Run: got %v, want nil", err)
		}
	case <-time.After(patience):
		r.t.Fatal("Run has not ended")
	}
}

// await waits until the intake is in a state.
func (r *running) await(what string, done func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Wait(ctx, done); err != nil {
		r.t.Fatalf("never came: %s; lines %d, pending %d", what, len(r.Lines()), r.Pending())
	}
}

// awaitTexts waits until as many lines are settled and compares them all, with
// their numbers and reasons: "2 {}" or "3 InvalidJSON x".
func (r *running) awaitTexts(want ...string) {
	r.t.Helper()
	r.await(fmt.Sprintf("%d settled lines", len(want)), func() bool { return len(r.Lines()) >= len(want) })
	var got []string
	for _, l := range r.Lines() {
		s := l.Text
		if l.Refused != "" {
			s = string(l.Refused) + " " + s
		}
		if l.Number > 0 {
			s = fmt.Sprint(l.Number, " ", s)
		}
		got = append(got, s)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		r.t.Fatalf("settled lines:\ngot  %.300q\nwant %.300q", got, want)
	}
}

// peer is a producer made by hand.
type peer struct {
	t *testing.T
	*net.UnixConn
	in *bufio.Reader
}

func (r *running) dial() *peer {
	r.t.Helper()
	nc, err := net.Dial("unix", r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return &peer{t: r.t, UnixConn: nc.(*net.UnixConn), in: bufio.NewReader(nc)}
}

// hello connects in acknowledged mode and expects an answer.
func (r *running) hello(producer string, next, acked int) *peer {
	r.t.Helper()
	p := r.dial()
	p.send(fmt.Sprintf(`{"docket":{"version":1,"producer":%q,"next":%d}}`+"\n", producer, next))
	p.expect(fmt.Sprintf(`{"docket":{"version":1,"acked":%d}}`, acked))
	return p
}

func (p *peer) send(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.UnixConn, text); err != nil {
		p.t.Fatalf("send %.60q: %v", text, err)
	}
}

func (p *peer) closeWrite() {
	p.t.Helper()
	if err := p.CloseWrite(); err != nil {
		p.t.Fatal(err)
	}
}

// expect reads the next lines.
func (p *peer) expect(want ...string) {
	p.t.Helper()
	for _, w := range want {
		got, err := p.in.ReadString('\n')
		if err != nil || got != w+"\n" {
			p.t.Fatalf("answer: got %q, %v, want %q", got, err, w)
		}
	}
}

// expectAck reads acks until the one for n, which must not be passed.
func (p *peer) expectAck(n int) {
	p.t.Helper()
	for {
		line, err := p.in.ReadString('\n')
		var got int
		if _, scan := fmt.Sscanf(line, `{"ack":%d}`, &got); err != nil || scan != nil || got > n {
			p.t.Fatalf("answer: got %q, %v, want an ack up to %d", line, err, n)
		}
		if got == n {
			return
		}
	}
}

// expectClosing reads the closing line, which must contain reason, and then the
// end.
func (p *peer) expectClosing(reason string) {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, `{"docket":{"version":1,"error":"`) || !strings.Contains(line, reason) {
		p.t.Fatalf("closing: got %q, %v, want an error with %q", line, err, reason)
	}
	p.expectEnd()
}

// expectEnd expects that the exporter has closed the connection. What we sent and
// it did not read makes that a reset.
func (p *peer) expectEnd() {
	p.t.Helper()
	rest, err := io.ReadAll(p.in)
	if netErr, ok := errors.AsType[net.Error](err); len(rest) > 0 || ok && netErr.Timeout() {
		p.t.Fatalf("at the end: got %q, %v, want the end", rest, err)
	}
}
