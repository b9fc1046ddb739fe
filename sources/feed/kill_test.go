package feed_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/statefile"
)

// killTotal is how many lines are read, of 1 KB each: more than the queue holds.
const (
	killTotal  = 10_000
	queueBytes = 4 << 20
)

// TestKill reads through a real exporter, whose queue refuses when it is full and whose
// sink is down half of the time, in a process that is killed again and again. Each line
// is in the queue once, in order, and the books balance.
func TestKill(t *testing.T) {
	if dir := os.Getenv("FEED_KILL_DIR"); dir != "" {
		serve(t, dir)
		return
	}
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	killOnceDurable(t, dir) // so that something is sent again, however slow the machine is
	kills := 1
	for finished := false; !finished; {
		cmd := child(t, dir)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed := false
		if kills < 12 {
			killed = true
			time.Sleep(50*time.Millisecond + time.Duration(random.IntN(400))*time.Millisecond) // any moment will do
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			kills++
		}
		err := cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Exited() || !killed {
			if err != nil {
				t.Fatalf("after %d kills: %v\n%s", kills, err, out.String())
			}
			finished = true
		}
	}
	checkDelivered(t, filepath.Join(dir, "delivered"))
	t.Logf("%d lines, %d kills", killTotal, kills)
}

// child is the process that is killed.
func child(t *testing.T, dir string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKill$", "-test.v")
	cmd.Env = append(append(os.Environ(), "FEED_KILL_DIR="+dir), env...)
	return cmd
}

// killOnceDurable kills a process that waits for it, with some lines durable and no
// checkpoint written.
func killOnceDurable(t *testing.T, dir string) {
	t.Helper()
	cmd := child(t, dir, "FEED_KILL_WAIT=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		said = append(said, scanner.Text())
		if scanner.Text() == readyToDie {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			said = nil
		}
	}
	if err := cmd.Wait(); err == nil || said != nil {
		t.Fatalf("the first process was not killed: %v\n%s", err, strings.Join(said, "\n"))
	}
}

// readyToDie is the line that says so.
const readyToDie = "some lines are durable"

// checkDelivered reads "seq number" of what the sink was sent, some of it twice.
func checkDelivered(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bySeq := make(map[uint64]int)
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		var seq uint64
		var number int
		if !strings.HasSuffix(scanner.Text(), ".") { // a kill has cut it
			continue
		}
		if _, err := fmt.Sscanf(scanner.Text(), "%d %d.", &seq, &number); err != nil {
			t.Fatalf("%q: %v", scanner.Text(), err)
		}
		if was, ok := bySeq[seq]; ok && was != number {
			t.Fatalf("record %d is line %d, and was line %d", seq, number, was)
		}
		bySeq[seq] = number
	}
	for n := 1; n <= killTotal; n++ {
		if got := bySeq[uint64(n)]; got != n {
			t.Fatalf("record %d is line %d, want line %d", n, got, n)
		}
	}
	if len(bySeq) != killTotal {
		t.Errorf("got %d records, want %d", len(bySeq), killTotal)
	}
}

// serve runs an exporter until all lines are delivered.
func serve(t *testing.T, dir string) {
	out, err := os.OpenFile(filepath.Join(dir, "delivered"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	source := &fileSource{t: t, waits: os.Getenv("FEED_KILL_WAIT") != "", state: filepath.Join(dir, "checkpoint"), read: make(chan struct{})}
	sink := &recordingSink{out: out}
	e, err := exporter.New(&exporter.Config{
		Queue:    exporter.QueueConfig{Directory: filepath.Join(dir, "queue"), MaxBytes: queueBytes, WhenFull: exporter.Block},
		Limits:   exporter.LimitsConfig{MaxRecordBytes: 1 << 20},
		Shutdown: exporter.ShutdownConfig{DrainTimeout: config.Duration(time.Minute)},
		Sources:  []exporter.SourceConfig{{Name: "test", Config: source}},
		Sinks: []exporter.SinkConfig{{
			Name: "sink", From: exporter.Oldest, Config: sink,
			Batch: sinks.BatchLimits{MaxRecords: 500, MaxBytes: 1 << 20},
			Retry: exporter.RetryConfig{InitialBackoff: config.Duration(time.Millisecond), MaxBackoff: config.Duration(10 * time.Millisecond)},
		}},
	}, exporter.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go sink.goUpAndDown(ctx, func() bool { return e.Status().Queue.State == exporter.Degraded })
	go func() { <-source.read; sink.down.Store(false); stop() }()
	if err := e.Run(ctx); err != nil {
		t.Error(err)
	}
	l := e.Status().Ledger
	sent := l.Received - l.Duplicate
	if l.Stored != killTotal || sent != killTotal || l.Sinks["sink"].Delivered != killTotal {
		t.Errorf("the books do not balance: %+v", l)
	}
	if l.Duplicate == 0 {
		t.Errorf("nothing was sent again: %+v", l)
	}
}

// recordingSink writes "seq number" of each record. It is its own configuration.
type recordingSink struct {
	sinks.Config
	out  *os.File
	down atomic.Bool
}

func (s *recordingSink) Open(context.Context, sinks.Env) (sinks.Sink, error) { return s, nil }
func (s *recordingSink) Close(context.Context) error                         { return nil }

func (s *recordingSink) Send(_ context.Context, b sinks.Batch) error {
	if s.down.Load() {
		return errors.New("down")
	}
	text := []byte("\n") // behind what a kill may have cut
	for _, it := range b.Items {
		var n int
		if _, err := fmt.Sscanf(string(it.Record), `{"n":%d,`, &n); err != nil {
			return err
		}
		text = fmt.Appendf(text, "%d %d.\n", it.Seq, n)
	}
	_, err := s.out.Write(text)
	return err
}

// goUpAndDown begins with an outage that lasts until the queue has been full once.
func (s *recordingSink) goUpAndDown(ctx context.Context, full func() bool) {
	for wasFull := false; ctx.Err() == nil; {
		wasFull = wasFull || full()
		s.down.Store(!s.down.Load() || !wasFull)
		select {
		case <-time.After(time.Duration(rand.IntN(150)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
	s.down.Store(false)
}

// fileSource reads lines 1 to killTotal and writes down, now and then, how far it has
// come. It is its own configuration.
type fileSource struct {
	sources.Config
	t     *testing.T
	waits bool // to be killed, once lines are durable
	state string
	read  chan struct{} // closed when everything is durable
}

func (s *fileSource) New(sources.Env) sources.Source { return s }
func (s *fileSource) Connections() int               { return 0 }

func (s *fileSource) Run(ctx context.Context, in sources.Intake, ready func()) error {
	ready()
	if err := s.readAll(ctx, in); err != nil {
		s.t.Error(err)
	}
	close(s.read)
	<-ctx.Done()
	return nil
}

func (s *fileSource) readAll(ctx context.Context, in sources.Intake) error {
	var saved uint64
	if _, err := statefile.Load(disk.At(s.state), 1, &saved); err != nil {
		return err
	}
	next := saved + 1 - rand.Uint64N(min(saved, 3000)+1) // any earlier line will do
	f, acked, err := feed.Open(ctx, in, "test", producer, next)
	if err != nil {
		return err
	}
	defer f.Close()
	if acked < saved {
		return fmt.Errorf("acked %d, and %d was durable", acked, saved)
	}
	padding := strings.Repeat("x", 1000)
	var chunk []byte
	for next <= killTotal {
		n := min(1+rand.Uint64N(200), killTotal-next+1)
		for i := range n {
			chunk = fmt.Appendf(chunk, "{\"n\":%d,\"padding\":%q}\n", next+i, padding)
		}
		if err := f.Send(ctx, chunk, int(n)); err != nil {
			return err
		}
		chunk = chunk[:0]
		next += n
		if s.waits && f.Settled() > 0 {
			fmt.Println(readyToDie)
			<-ctx.Done()
		}
		if now := f.Settled(); now > saved && rand.IntN(8) == 0 {
			saved = now
			if err := statefile.Save(disk.At(s.state), saved); err != nil {
				return err
			}
		}
	}
	return f.Settle(ctx)
}
