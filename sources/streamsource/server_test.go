package streamsource

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/sourcetest"
)

func (r *running) awaitConnections(want int) {
	r.t.Helper()
	await.Until(r.t, fmt.Sprintf("%d connections", want), func() bool { return r.source.Connections() == want })
}

func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	peers := make([]*peer, defaultConnections)
	for i := range peers {
		peers[i] = r.dial()
	}
	r.awaitConnections(defaultConnections)
	r.dial().expectClosing("too many connections: at most 256 at a time")

	// Those that are in are served, and one that leaves makes room.
	peers[7].send("{\"a\":1}\n")
	r.awaitTexts(`{"a":1}`)
	peers[0].Close()
	r.awaitConnections(defaultConnections - 1)
	r.hello("p", 1, 0)
	for _, p := range peers {
		p.Close()
	}
}

func TestStopSendsWhatIsOwed(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	r.Hold()
	p := r.hello("p", 1, 0)
	p.send("{\"a\":1}\nbad\n")
	r.await("2 pending lines", func() bool { return r.Pending() == 2 })
	r.stop()
	awaitGone(t, r.path) // it no longer lets anybody in
	r.Release()
	p.expectRefused(2)
	p.expectAck(2)
	p.expectClosing("the exporter is stopping")
	r.stopAndWait()
	if n := r.source.Connections(); n != 0 {
		t.Errorf("connections after the stop: got %d, want 0", n)
	}
}

func awaitGone(t *testing.T, path string) {
	t.Helper()
	await.Until(t, "no file "+path, func() bool { _, err := os.Lstat(path); return err != nil })
}

// In plain mode what was written before the stop is read, also from those that
// nobody has accepted yet.
func TestStopReadsWhatPlainProducersWrote(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	var want int
	var stopped []*peer
	for i := range 50 {
		p := r.dial()
		p.send(strings.Repeat("{}\n", i) + "{\"last\":1}")
		want += i + 1
		stopped = append(stopped, p)
	}
	r.stopAndWait()
	if got := len(r.Lines()); got != want {
		t.Errorf("lines after the stop: got %d, want %d", got, want)
	}
	for _, p := range stopped {
		p.expectEnd()
	}
}

// That holds on a busy machine, too, which comes to them when the time for it is over.
func TestStopReadsWhatPlainProducersWroteThoughLate(t *testing.T) {
	t.Parallel()
	c := &late{UnixConfig: UnixDefinition.NewConfig().(*UnixConfig), accept: make(chan struct{})}
	c.Path = filepath.Join(t.TempDir(), "s")
	r := startSource(t, testLimit, c)
	const producers = 20
	for range producers {
		r.dial().send("{}\n{\"last\":1}")
	}
	r.stop()
	awaitGone(t, r.path)
	<-time.After(2 * acceptWait)
	close(c.accept)
	r.stopAndWait()
	if got, want := len(r.Lines()), 2*producers; got != want {
		t.Errorf("lines after the stop: got %d, want %d", got, want)
	}
}

// late is a source that accepts nobody before it is told to, and reads nothing before
// the deadline for that has passed.
type late struct {
	*UnixConfig
	accept chan struct{} // closed when it may
}

func (c *late) New(env sources.Env) sources.Source {
	s := c.UnixConfig.New(env).(*source)
	listen := s.listen
	s.listen = func(ctx context.Context) (listener, gate, error) {
		ln, g, err := listen(ctx)
		return &lateListener{ln.(*unixListener), c.accept}, g, err
	}
	return s
}

type lateListener struct {
	*unixListener
	accept chan struct{}
}

func (l *lateListener) Accept() (net.Conn, error) {
	<-l.accept
	nc, err := l.unixListener.Accept()
	if err != nil {
		return nil, err
	}
	return &lateConn{UnixConn: nc.(*net.UnixConn), deadlines: make(chan time.Time, 100)}, nil
}

// lateConn reads twice only when a deadline for that was set and has passed: when it is
// stopped, and at the last look.
type lateConn struct {
	*net.UnixConn
	deadlines chan time.Time
	reads     int
}

func (c *lateConn) SetReadDeadline(at time.Time) error {
	c.deadlines <- at
	return c.UnixConn.SetReadDeadline(at)
}

func (c *lateConn) Read(p []byte) (int, error) {
	if c.reads++; c.reads <= 2 {
		<-time.After(time.Until(<-c.deadlines))
	}
	return c.UnixConn.Read(p)
}

func TestStopOfAnIdleSourceIsQuick(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	r.dial()
	r.hello("p", 1, 0)
	r.awaitConnections(2)
	r.stopIsQuick()
	r.stopAndWait()
}

// stopIsQuick makes a stop that waits as long as it may wait for ever.
func (r *running) stopIsQuick() { r.source.server.Load().stopWait = time.Hour }

// A stop does not wait for ever: not for the queue, and not for producers that
// do not read.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	stopWait := time.Second / 2
	r.source.server.Load().stopWait = stopWait
	deaf := r.hello("deaf", 1, 0)
	go deaf.Write(bytes.Repeat([]byte("x\n"), 4*maxUnanswered))
	r.await("refusals that nobody reads", func() bool { return len(r.Lines()) >= 1000 })
	r.Hold()
	p := r.hello("p", 1, 0)
	p.send("{\"a\":1}\n{\"a\":2}\n")
	plain := r.dial()
	plain.send("{\"a\":3}\n")
	r.await("pending lines", func() bool { return r.Pending() >= 3 })
	waiting := r.dial() // for an older connection to be decided
	waiting.send(`{"docket":{"version":1,"producer":"p","next":3}}` + "\n")
	p.expectClosing("taken over")

	began := time.Now()
	r.stop()
	waiting.expectClosing("the exporter is stopping")
	r.stopAndWait()
	if took := time.Since(began); took < stopWait {
		t.Errorf("stop: took %v, want about %v", took, stopWait+severWait)
	}
}

// After a crash of the queue a connection ends with a reason, and nothing that
// is not durable was acked.
func TestIntakeThatFails(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	p := r.hello("p", 1, 0)
	p.send("{\"a\":1}\n")
	p.expectAck(1)
	r.Hold()
	p.send("{\"a\":2}\n")
	r.await("1 pending line", func() bool { return r.Pending() == 1 })
	r.Crash()
	p.send("{\"a\":3}\n")
	p.expectClosing("the exporter takes no lines at the moment")
	late := r.dial()
	late.send(`{"docket":{"version":1,"producer":"q","next":1}}` + "\n")
	late.expectClosing("the exporter takes no lines at the moment")
}

func TestManyProducers(t *testing.T) {
	r := start(t, testLimit)
	const producers, lines = 16, 2000
	done := make(chan string, producers)
	for i := range producers {
		p := r.hello(fmt.Sprint("p", i), 1, 0)
		go func() {
			for n := range lines {
				if _, err := fmt.Fprintf(p, "{\"n\":%d}\n", n+1); err != nil {
					done <- err.Error()
					return
				}
			}
			done <- ""
		}()
		go func() { // reads acks
			for {
				if _, err := p.in.ReadString('\n'); err != nil {
					return
				}
			}
		}()
	}
	for range producers {
		if err := <-done; err != "" {
			t.Fatal(err)
		}
	}
	r.await("all lines", func() bool { return len(r.Lines()) == producers*lines })
	checkOnceInOrder(t, r.Lines())
}

// checkOnceInOrder checks that each producer's lines are 1, 2, 3 ...
func checkOnceInOrder(t *testing.T, lines []sourcetest.Line) {
	t.Helper()
	last := map[string]uint64{}
	for _, l := range lines {
		last[l.Producer]++
		if want := last[l.Producer]; l.Number != want || l.Text != fmt.Sprintf(`{"n":%d}`, want) {
			t.Fatalf("producer %s: got line %d %s, want number %d", l.Producer, l.Number, l.Text, want)
		}
	}
}
