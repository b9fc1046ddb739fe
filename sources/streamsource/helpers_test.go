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

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/internal/testlog"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/sourcetest"
)

// TestMain runs the tests, or the second process that some of them need.
func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		runChild(role)
		return
	}
	testleak.Main(m)
}

// running is a source that serves producers.
type running struct {
	*sourcetest.Intake
	t      *testing.T
	path   string // of the Unix socket
	at     net.Addr
	source *source
	log    *testlog.Buffer
	stop   context.CancelFunc
	ended  chan error
}

const testLimit = 64 << 10

// few is by how much fewer of something a short test has.
func few(n int) int {
	if testing.Short() {
		return n
	}
	return 1
}

// start runs a source on a Unix socket until the test ends. change may change its
// configuration.
func start(t *testing.T, limit int, change ...func(*UnixConfig)) *running {
	t.Helper()
	c := UnixDefinition.NewConfig().(*UnixConfig)
	c.Path = filepath.Join(t.TempDir(), "s")
	for _, f := range change {
		f(c)
	}
	return startSource(t, limit, c)
}

// startSource runs a source with an intake in memory until the test ends.
func startSource(t *testing.T, limit int, c sources.Config) *running {
	t.Helper()
	in := sourcetest.New()
	r := startOn(t, in, limit, c)
	r.Intake = in
	t.Cleanup(func() {
		r.Release()
		r.stopAndWait()
		in.Close()
	})
	return r
}

// startOn runs a source with another intake until the test ends.
func startOn(t *testing.T, in sources.Intake, limit int, c sources.Config) *running {
	t.Helper()
	r := &running{t: t, log: new(testlog.Buffer), ended: make(chan error, 1)}
	env := sources.Env{Name: "test", MaxRecordBytes: limit, Log: slog.New(slog.NewTextHandler(r.log, nil))}
	r.source = c.New(env).(*source)
	listen := r.source.listen
	r.source.listen = func(ctx context.Context) (listener, gate, error) {
		ln, g, err := listen(ctx)
		if err == nil {
			r.at = ln.(net.Listener).Addr()
			r.path = r.at.String()
		}
		return ln, g, err
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	ready := make(chan struct{})
	go func() { r.ended <- r.source.Run(ctx, in, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-r.ended:
		t.Fatalf("Run: %v", err)
	}
	t.Cleanup(r.stopAndWait)
	return r
}

// awaitLog waits until the log has n lines with text.
func (r *running) awaitLog(n int, text string) {
	r.t.Helper()
	defer func() {
		if r.t.Failed() {
			r.t.Logf("log: got\n%s", r.log)
		}
	}()
	await.Until(r.t, fmt.Sprintf("%d lines in the log with %q", n, text), func() bool { return strings.Count(r.log.String(), text) == n })
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
	case <-time.After(await.Left(r.t)):
		r.t.Fatal("Run has not ended")
	}
}

// await waits until the intake is in a state.
func (r *running) await(what string, done func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Left(r.t))
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
	halfConn
	in *bufio.Reader
}

// halfConn is a connection whose writing side can be closed alone.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

func (r *running) dial() *peer {
	r.t.Helper()
	nc, err := dialer().Dial(r.at.Network(), r.at.String())
	if err != nil {
		r.t.Fatal(err)
	}
	return newPeer(r.t, nc.(halfConn))
}

func newPeer(t *testing.T, nc halfConn) *peer {
	t.Helper()
	t.Cleanup(func() { nc.Close() })
	p := &peer{t: t, halfConn: nc, in: bufio.NewReader(nc)}
	p.goOn()
	return p
}

// goOn gives what the peer does next its own time.
func (p *peer) goOn() {
	_ = p.SetDeadline(time.Now().Add(await.Left(p.t))) // it fails only on a closed connection, and so does what is next
}

// hello connects in acknowledged mode and expects an answer.
func (r *running) hello(producer string, next, acked int) *peer {
	r.t.Helper()
	p := r.dial()
	p.hello(producer, next, acked)
	return p
}

func (p *peer) hello(producer string, next, acked int) {
	p.t.Helper()
	p.send(fmt.Sprintf(`{"docket":{"version":1,"producer":%q,"next":%d}}`+"\n", producer, next))
	p.expect(fmt.Sprintf(`{"docket":{"version":1,"acked":%d}}`, acked))
}

func (p *peer) send(text string) {
	p.t.Helper()
	p.goOn()
	if _, err := io.WriteString(p, text); err != nil {
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
		p.goOn()
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
		p.goOn()
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
	p.goOn()
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
	p.goOn()
	rest, err := io.ReadAll(p.in)
	if netErr, ok := errors.AsType[net.Error](err); len(rest) > 0 || ok && netErr.Timeout() {
		p.t.Fatalf("at the end: got %q, %v, want the end", rest, err)
	}
}
