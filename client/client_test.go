package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/decision"
)

func (e *exporter) client(config Config) *Client {
	e.t.Helper()
	config.Address = "unix://" + e.path
	return startClient(e.t, config)
}

func startClient(t *testing.T, config Config) *Client {
	t.Helper()
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, _ = c.Close(ctx)
	})
	return c
}

// record is the nth decision of a kind, padded to some 500 bytes.
func record(d decision.Decision, n int) *decision.Record {
	return &decision.Record{Decision: d, Sequence: uint64(n), Message: strings.Repeat("m", 400)}
}

func closeClient(t *testing.T, c *Client) {
	t.Helper()
	if left, err := c.Close(within(t)); left != 0 || err != nil {
		t.Fatalf("Close: got %d left, %v, want 0, nil", left, err)
	}
}

// A client that is off does nothing, and every method can be called.
func TestOff(t *testing.T) {
	c, err := New(Config{})
	if c != nil || err != nil {
		t.Fatalf("New without an address: got %v, %v, want nil, nil", c, err)
	}
	ctx := context.Background()
	r := record(decision.Deny, 1)
	left, closeErr := c.Close(ctx)
	for what, err := range map[string]error{
		"Log": c.Log(ctx, r), "TryLog": c.TryLog(r), "Export": c.Export(ctx, r), "Flush": c.Flush(ctx),
		"LogLine": c.LogLine(ctx, []byte("{}"), ""), "TryLogLine": c.TryLogLine([]byte("{}"), ""), "Close": closeErr,
	} {
		if err != nil {
			t.Errorf("%s: got %v, want nil", what, err)
		}
	}
	c.Lose(decision.Deny, 1)
	if !c.Later(1<<60, func() { t.Error("Later runs a function") }) || c.Mode() != Batch ||
		c.NextSequence() != 0 || c.NextSequences(2) != 0 || c.Producer() != "" {
		t.Error("got a client that is on, want Later true, Batch, 0 and no name")
	}
	if left != 0 || c.Enabled() || c.Stats().Logged != 0 {
		t.Errorf("got %d left, enabled %t, %+v, want nothing", left, c.Enabled(), c.Stats())
	}
	if n := testing.AllocsPerRun(100, func() { _ = c.TryLog(r) }); n != 0 {
		t.Errorf("TryLog: got %v allocations, want 0", n)
	}
}

// Numbers follow each other, alone and together.
func TestNextSequences(t *testing.T) {
	c := newExporter(t).client(Config{})
	got := []uint64{c.NextSequence(), c.NextSequences(3), c.NextSequences(0), c.NextSequences(-1), c.NextSequences(1), c.NextSequence()}
	if want := []uint64{1, 2, 0, 0, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Producer is the name under which the exporter stores what was logged.
func TestProducer(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{Producer: "engine"})
	if err := c.Log(within(t), record(decision.Deny, 1)); err != nil {
		t.Fatal(err)
	}
	if got := c.Producer(); !strings.HasPrefix(got, "engine/") || got != e.Lines()[0].Producer {
		t.Errorf("got %q, want engine/ and the random part of %q", got, e.Lines()[0].Producer)
	}
}

// Log returns when the record is durable, and not before.
func TestLogWaitsForTheDisk(t *testing.T) {
	e := newExporter(t)
	e.Hold()
	c := e.client(Config{})
	logged := make(chan error, 1)
	go func() { logged <- c.Log(within(t), record(decision.Deny, 1)) }()
	e.await("the line", func() bool { return e.Held() == 1 })
	select {
	case err := <-logged:
		t.Fatalf("Log returned %v before the line was durable", err)
	default:
	}
	e.Settle(1)
	if err := <-logged; err != nil {
		t.Fatalf("Log: %v", err)
	}
	if st := c.Stats(); st.Logged != 1 || st.Stored != 1 || st.Buffered != 0 {
		t.Errorf("Stats: got %+v, want 1 logged and stored", st)
	}
}

func TestLogSaysWhyItGaveUp(t *testing.T) {
	e := newExporter(t)
	e.Hold()
	c := e.client(Config{})
	ctx, cancel := context.WithCancel(context.Background())
	logged := make(chan error, 1)
	go func() { logged <- c.Log(ctx, record(decision.Deny, 1)) }()
	e.await("the line", func() bool { return e.Held() == 1 })
	cancel()
	if err := <-logged; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "has not acknowledged it yet") {
		t.Errorf("Log: got %v, want canceled and what it waited for", err)
	}
	e.Release()
	closeClient(t, c) // it was under way all the same
	checkCount(t, e.Lines(), 1)
}

func checkCount(t *testing.T, lines []clienttest.Line, want int) {
	t.Helper()
	if len(lines) != want {
		t.Errorf("lines at docket: got %d, want %d", len(lines), want)
	}
}

func TestRefusedRecord(t *testing.T) {
	e := newExporter(t)
	e.Refuse(refuseBad)
	c := e.client(Config{})
	var refused *RefusedError
	if err := c.LogLine(within(t), []byte(bad), decision.Deny); !errors.As(err, &refused) || refused.Reason != "InvalidJSON" {
		t.Errorf("LogLine: got %v, want InvalidJSON", err)
	}
	if err := c.TryLogLine([]byte(bad), decision.Deny); err != nil {
		t.Errorf("TryLogLine: %v", err)
	}
	if err := c.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	if st := c.Stats(); st.Refused != 2 || st.Stored != 0 || len(st.Lost) != 0 {
		t.Errorf("Stats: got %+v, want 2 refused, and none lost: docket knows of them", st)
	}
}

func TestRecordsThatCannotBeLogged(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{})
	bad := &decision.Record{Decision: decision.Deny, Process: "guess"}
	large := &decision.Record{Decision: decision.Warn, Message: strings.Repeat("x", DefaultBufferedBytes)}
	for want, err := range map[string]error{
		"process: must be":                      c.Log(within(t), bad),
		"record: process: must be":              c.TryLog(bad),
		"does not fit into the buffer":          c.Log(within(t), large),
		"bytes does not fit into the buffer of": c.TryLog(large),
		"newline":                               c.LogLine(within(t), []byte("{}\n"), ""),
		"has a newline":                         c.TryLogLine([]byte("{\n}"), ""),
		"hello of the stream":                   c.TryLogLine([]byte(`{"docket":{"version":1}}`), decision.Allow),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := c.Export(within(t), bad); err != nil {
		t.Errorf("Export: got %v, want nil", err)
	}
	closeClient(t, c)
	_, lost := sequences(t, e.Lines())
	want := map[decision.Decision]int{decision.Deny: 2, decision.Warn: 1, decision.Allow: 1, "unspecified": 1}
	if !maps.Equal(lost, want) {
		t.Errorf("told as lost: got %v, want %v: what returned an error of TryLog", lost, want)
	}
}

func TestExportModes(t *testing.T) {
	nobody := "unix://" + t.TempDir() + "/nobody"
	for mode, wantErr := range map[Mode]bool{Batch: false, Blocking: false, BlockingStrict: true} {
		t.Run(string(mode), func(t *testing.T) {
			c := startClient(t, Config{Address: nobody, Mode: mode, Timeout: 10 * time.Millisecond, MaxBufferedBytes: MinBufferedBytes})
			for range 300 {
				if err := c.Export(context.Background(), record(decision.Deny, 1)); (err != nil) != wantErr {
					t.Fatalf("Export with docket away: got %v, want an error: %t", err, wantErr)
				}
				if mode != Batch && c.Stats().Lost[decision.Deny] > 0 {
					break
				}
				if c.Stats().BufferedBytes > MinBufferedBytes {
					t.Fatalf("memory: got %d bytes, want at most %d", c.Stats().BufferedBytes, MinBufferedBytes)
				}
				if mode == BlockingStrict {
					break // the caller knows, so nothing is counted
				}
			}
			st := c.Stats()
			if lost := st.Lost[decision.Deny]; (lost > 0) != (mode != BlockingStrict) {
				t.Errorf("%s: got %d lost and %d logged, want what had no room counted unless the caller was told", mode, lost, st.Logged)
			}
		})
	}
	t.Run("exporter there", func(t *testing.T) {
		e := newExporter(t)
		for _, mode := range []Mode{Blocking, BlockingStrict} {
			c := e.client(Config{Mode: mode, Timeout: await.Left(t)})
			before := len(e.Lines())
			if err := c.Export(context.Background(), record(decision.Deny, 1)); err != nil {
				t.Fatalf("Export: %v", err)
			}
			checkCount(t, e.Lines(), before+1) // at once: it has waited
		}
	})
}

// Many goroutines, an exporter that dies, a buffer that is too small: every Log
// that returned nil is stored once, and what is missing was told.
func TestManyGoroutinesLog(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{MaxBufferedBytes: MinBufferedBytes, Producer: "many"})
	const each = 100
	var stored, tried, full [200]int
	var most atomic.Int64
	var all sync.WaitGroup
	for g := range 200 {
		all.Go(func() {
			for n := range each {
				text := fmt.Appendf(nil, `{"decision":"deny","sequence":%d}`, g*each+n+1)
				if g%2 == 0 {
					if err := c.LogLine(within(t), text, decision.Deny); err != nil {
						t.Errorf("Log: %v", err)
						return
					}
					stored[g]++
					continue
				}
				tried[g]++
				if err := c.TryLogLine(text, decision.Deny); err != nil {
					full[g]++
				}
				if bytes := int64(c.Stats().BufferedBytes); bytes > most.Load() {
					most.Store(bytes)
				}
			}
		})
	}
	for restart := range 5 {
		goal := (restart + 1) * 1500
		e.await("lines before a crash", func() bool { return len(e.Lines()) >= goal })
		e.restart()
	}
	all.Wait()
	closeClient(t, c)
	if most.Load() > MinBufferedBytes {
		t.Errorf("memory: got %d bytes, want at most %d", most.Load(), MinBufferedBytes)
	}
	got, lost := sequences(t, e.Lines())
	seen := map[int]int{}
	for _, n := range got[decision.Deny] {
		seen[n]++
		if seen[n] > 1 {
			t.Fatalf("record %d: stored %d times", n, seen[n])
		}
	}
	for g := range 200 {
		for n := range each {
			if number := g*each + n + 1; g%2 == 0 && seen[number] != 1 {
				t.Fatalf("record %d: Log returned nil, stored %d times", number, seen[number])
			}
		}
	}
	missing := 200*each - len(seen)
	if lost[decision.Deny] != missing || sum(full[:]) != missing {
		t.Errorf("missing: got %v told, %v counted and %d refused by TryLog, want %d", lost, c.Stats().Lost, sum(full[:]), missing)
	}
}

func sum(all []int) (n int) {
	for _, m := range all {
		n += m
	}
	return n
}

// A record costs no allocation on its way in, but what the runtime's pools lose.
func TestTryLogAllocations(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{})
	r := record(decision.Deny, 1)
	for range 1000 { // so that the pools are filled
		_ = c.TryLog(r)
	}
	if err := c.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(500, func() { _ = c.TryLog(r) }); n > 1 {
		t.Errorf("TryLog: got %v allocations, want at most 1", n)
	}
}

func TestConcurrentCloses(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{})
	if err := c.TryLog(record(decision.Deny, 1)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { closeClient(t, c) })
	}
	all.Wait()
	if err := c.Log(within(t), record(decision.Deny, 2)); !errors.Is(err, ErrClosed) {
		t.Errorf("Log after Close: got %v, want ErrClosed", err)
	}
	if err := c.TryLog(record(decision.Deny, 2)); !errors.Is(err, ErrClosed) || c.Stats().Lost[decision.Deny] != 1 {
		t.Errorf("TryLog after Close: got %v and %v lost, want ErrClosed, counted", err, c.Stats().Lost)
	}
	checkCount(t, e.Lines(), 1)
}

// Close ends a Log that waits for an exporter which does not come.
func TestCloseEndsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(string, *Config) (Dial, error) {
			return func(context.Context) (net.Conn, error) { return nil, io.ErrClosedPipe }, nil
		}
		c, err := New(Config{Address: "test://", MaxBufferedBytes: MinBufferedBytes, Transports: map[string]Transport{"test": never}})
		if err != nil {
			t.Fatal(err)
		}
		results := make(chan error, 200)
		for n := range 200 { // some of which wait for room
			go func() { results <- c.Log(context.Background(), record(decision.Deny, n)) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		left, err := c.Close(ctx)
		if left == 0 || left == 200 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: got %d left, %v, want those that had room", left, err)
		}
		for range 200 {
			if err := <-results; !errors.Is(err, ErrClosed) {
				t.Fatalf("Log: got %v, want ErrClosed", err)
			}
		}
	})
}

// An exporter that is back within the time of Close gets what is left, however long it was
// away.
func TestCloseFindsAnExporterThatIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, config := inBubble(0)
		defer e.Close()
		there := config.Transports["test"]
		tried, back := make(chan bool, 100), make(chan bool)
		config.Transports["test"] = func(address string, c *Config) (Dial, error) {
			dial, err := there(address, c)
			return func(ctx context.Context) (net.Conn, error) {
				select {
				case <-back:
					return dial(ctx)
				default:
					tried <- true
					return nil, io.ErrClosedPipe
				}
			}, err
		}
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.TryLog(record(decision.Deny, 1)); err != nil {
			t.Fatal(err)
		}
		for range 12 { // until the longest pause has just begun
			<-tried
		}
		time.AfterFunc(time.Second, func() { close(back) })
		ctx, cancel := context.WithTimeout(context.Background(), time.Second+2*closingPause)
		defer cancel()
		if left, err := c.Close(ctx); left != 0 || err != nil || len(e.Lines()) != 1 {
			t.Errorf("Close: got %d left, %v, and %d stored, want the record stored", left, err, len(e.Lines()))
		}
	})
}
