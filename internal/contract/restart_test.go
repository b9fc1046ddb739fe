package contract

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/sourcetest"
	"github.com/docket-export/docket/sources/streamsource"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		runChild(dir)
		return
	}
	testleak.Main(m)
}

// exporter is the real stream source with an intake in memory, which can die and
// come back at the same path.
type exporter struct {
	*sourcetest.Intake
	t     *testing.T
	path  string
	stop  context.CancelFunc
	ended chan error
}

func newExporter(t *testing.T) *exporter {
	e := &exporter{t: t, path: filepath.Join(t.TempDir(), "s")}
	e.start(nil)
	t.Cleanup(func() {
		e.Release()
		e.end()
	})
	return e
}

// start serves with an intake that has settled lines before.
func (e *exporter) start(lines []sourcetest.Line) {
	e.t.Helper()
	e.Intake = sourcetest.New()
	e.Restore(lines)
	e.ended = make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	in, ready := e.Intake, make(chan struct{})
	go func() { e.ended <- newSource(e.path).Run(ctx, in, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-e.ended:
		e.t.Fatalf("Run: %v", err)
	}
}

func newSource(path string) sources.Source {
	c := &streamsource.UnixConfig{Path: path, Mode: "0600", MaxConnections: 64}
	return c.New(sources.Env{Name: "test", MaxRecordBytes: 1 << 20, Log: slog.New(slog.DiscardHandler)})
}

func (e *exporter) end() {
	e.t.Helper()
	e.stop()
	select {
	case err := <-e.ended:
		if err != nil {
			e.t.Errorf("Run: %v", err)
		}
	case <-time.After(await.Left(e.t)):
		e.t.Fatal("the source does not stop")
	}
	e.Close()
}

// crash forgets what is not settled, and ends. It returns what is.
func (e *exporter) crash() []sourcetest.Line {
	e.t.Helper()
	e.Crash()
	e.end()
	return e.Lines()
}

func (e *exporter) await(what string, done func() bool) {
	e.t.Helper()
	if err := e.Wait(within(e.t), done); err != nil {
		e.t.Fatalf("never came: %s; lines %d, pending %d", what, len(e.Lines()), e.Pending())
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), await.Left(t))
	t.Cleanup(cancel)
	return ctx
}

func (e *exporter) sender(config client.SenderConfig) *client.Sender {
	e.t.Helper()
	config.Address = "unix://" + e.path
	s, err := client.NewSender(config)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, _ = s.Close(ctx)
	})
	return s
}

func text(n int) []byte { return fmt.Appendf(nil, `{"n":%d}`, n) }

func send(t *testing.T, s *client.Sender, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		if err := s.Send(within(t), text(n)); err != nil {
			t.Fatalf("Send %d: %v", n, err)
		}
	}
}

func closeAll(t *testing.T, s *client.Sender) {
	t.Helper()
	if left, err := s.Close(within(t)); left != 0 || err != nil {
		t.Fatalf("Close: got %d left, %v, want 0, nil", left, err)
	}
}

// checkOnce checks that lines are 1 to last, each once and in order.
func checkOnce(t *testing.T, lines []sourcetest.Line, last int) {
	t.Helper()
	for i, l := range lines {
		if l.Text != string(text(i+1)) || l.Number != uint64(i+1) {
			t.Fatalf("settled line %d: got number %d, %s", i+1, l.Number, l.Text)
		}
	}
	if len(lines) != last {
		t.Fatalf("settled lines: got %d, want %d", len(lines), last)
	}
}

// The exporter dies again and again while lines are under way.
func TestExporterRestarts(t *testing.T) {
	e := newExporter(t)
	var told uint64
	s := e.sender(client.SenderConfig{Producer: "p", MaxInFlightLines: 500, Acked: func(n uint64) {
		if n <= told {
			t.Errorf("Acked: got %d after %d", n, told)
		}
		told = n
	}})
	const last = 20000
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for n := 1; n <= last; n++ {
			if err := s.Send(within(t), text(n)); err != nil {
				t.Errorf("Send %d: %v", n, err)
				return
			}
		}
	}()
	for restart := range 10 {
		goal := (restart + 1) * last / 12
		e.await("lines before a crash", func() bool { return len(e.Lines()) >= goal })
		if restart%2 == 0 { // so that some are acked, some settled, some lost
			e.Hold()
			e.await("pending lines", func() bool { return e.Pending() > 100 })
			e.Settle(50)
		}
		e.start(e.crash())
	}
	<-sent
	closeAll(t, s)
	checkOnce(t, e.Lines(), last)
	if st := s.Stats(); st.Forgotten != 0 {
		t.Errorf("Stats: got %+v, want nothing forgotten", st)
	}
}

func TestExporterThatHasForgotten(t *testing.T) {
	e := newExporter(t)
	connected := make(chan uint64, 10)
	s := e.sender(client.SenderConfig{Connected: func(forgotten uint64) { connected <- forgotten }})
	send(t, s, 1, 10)
	if err := s.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	e.crash()
	e.start(nil)
	send(t, s, 11, 12)
	closeAll(t, s)
	if a, b := <-connected, <-connected; a != 0 || b != 10 {
		t.Errorf("forgotten: got %d, then %d, want 0, 10", a, b)
	}
	if got := e.Lines(); len(got) != 2 || got[0].Number != 11 || got[1].Text != string(text(12)) {
		t.Errorf("lines: got %v, want 11 and 12 under their numbers", got)
	}
}

// Lines that were durable, but whose acks were lost with the connection, are not
// sent again.
func TestLostAcks(t *testing.T) {
	e := newExporter(t)
	e.Hold()
	s := e.sender(client.SenderConfig{Producer: "p"})
	send(t, s, 1, 100)
	e.await("100 pending lines", func() bool { return e.Pending() == 100 })
	var durable []sourcetest.Line
	for n := 1; n <= 60; n++ {
		durable = append(durable, sourcetest.Line{Producer: "p", Number: uint64(n), Text: string(text(n))})
	}
	e.crash()
	e.start(durable)
	closeAll(t, s)
	checkOnce(t, e.Lines(), 100)
	if e.Known() != 0 {
		t.Errorf("lines sent again though durable: got %d, want 0", e.Known())
	}
}

// childDir is the environment variable that turns this test binary into an
// exporter that keeps its lines in a file there.
const childDir = "DOCKET_CLIENT_CHILD"

func runChild(dir string) {
	file, err := os.OpenFile(filepath.Join(dir, "lines"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	in := sourcetest.New()
	in.Restore(readLines(file.Name()))
	in.OnSettle = func(lines []sourcetest.Line) {
		var b []byte
		for _, l := range lines {
			b = fmt.Appendf(b, "%s\t%d\t%s\n", l.Producer, l.Number, l.Text)
		}
		if _, err := file.Write(b); err != nil {
			panic(err)
		}
	}
	err = newSource(filepath.Join(dir, "s")).Run(context.Background(), in, func() { fmt.Println("ready") })
	panic(err)
}

// readLines reads what a child has kept. A line that is cut short was not acked.
func readLines(path string) []sourcetest.Line {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	whole := strings.LastIndexByte(string(text), '\n') + 1
	if err := os.Truncate(path, int64(whole)); err != nil {
		panic(err)
	}
	var lines []sourcetest.Line
	for l := range strings.Lines(string(text[:whole])) {
		var s sourcetest.Line
		if _, err := fmt.Sscanf(l, "%s\t%d\t%s\n", &s.Producer, &s.Number, &s.Text); err != nil {
			panic(err)
		}
		lines = append(lines, s)
	}
	return lines
}

// A real process is killed over and over; everything arrives once and in order.
func TestExporterIsKilled(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var cmd *exec.Cmd
	kill := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	start := func() {
		cmd = exec.Command(exe)
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if l, err := bufio.NewReader(out).ReadString('\n'); l != "ready\n" {
			t.Fatalf("child: got %q, %v, want ready", l, err)
		}
	}
	start()
	defer func() { kill() }()
	progress := make(chan struct{}, 1)
	s, err := client.NewSender(client.SenderConfig{
		Address:          "unix://" + filepath.Join(dir, "s"),
		MaxInFlightLines: 300,
		Acked: func(n uint64) {
			select {
			case progress <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan int, 1)
	stop := make(chan struct{})
	go func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				sent <- n - 1
				return
			default:
			}
			if err := s.Send(within(t), text(n)); err != nil {
				t.Errorf("Send %d: %v", n, err)
				sent <- n - 1
				return
			}
		}
	}()
	for range 8 {
		for range 20 {
			<-progress
		}
		kill()
		start()
	}
	close(stop)
	last := <-sent
	closeAll(t, s)
	checkOnce(t, readLines(filepath.Join(dir, "lines")), last)
	t.Logf("%d lines, 8 kills, %+v", last, s.Stats())
}
