package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/stream"
	"github.com/docket-export/docket/sources/streamsource/streamtest"
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

// sequences returns the numbers of the records of d among lines, and the losses
// that were told.
func sequences(t *testing.T, lines []streamtest.Line) (got map[decision.Decision][]int, lost map[decision.Decision]int) {
	t.Helper()
	got, lost = map[decision.Decision][]int{}, map[decision.Decision]int{}
	for _, l := range lines {
		if l.Refused != "" {
			continue
		}
		var r struct {
			EventType string
			Decision  decision.Decision
			Sequence  int
			Lost      map[decision.Decision]int
			Reasons   map[string]int
		}
		if err := json.Unmarshal([]byte(l.Text), &r); err != nil {
			t.Fatalf("line %s: %v", l.Text, err)
		}
		if r.EventType == LossEventType {
			byDecision, byReason := 0, 0
			for d, n := range r.Lost {
				lost[d] += n
				byDecision += n
			}
			for _, n := range r.Reasons {
				byReason += n
			}
			if byDecision != byReason || byDecision == 0 {
				t.Errorf("loss record: got %d by decision and %d by reason, want the same: %s", byDecision, byReason, l.Text)
			}
			continue
		}
		got[r.Decision] = append(got[r.Decision], r.Sequence)
	}
	return got, lost
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
	if left != 0 || c.Enabled() || c.Stats().Logged != 0 {
		t.Errorf("got %d left, enabled %t, %+v, want nothing", left, c.Enabled(), c.Stats())
	}
	if n := testing.AllocsPerRun(100, func() { _ = c.TryLog(r) }); n != 0 {
		t.Errorf("TryLog: got %v allocations, want 0", n)
	}
}

// Log returns when the record is durable, and not before.
func TestLogWaitsForTheDisk(t *testing.T) {
	e := newExporter(t)
	e.Hold()
	c := e.client(Config{})
	logged := make(chan error, 1)
	go func() { logged <- c.Log(within(t), record(decision.Deny, 1)) }()
	e.await("the line", func() bool { return e.Pending() == 1 })
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
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := c.Log(ctx, record(decision.Deny, 1))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has not acknowledged it yet") {
		t.Errorf("Log: got %v, want the deadline and what it waited for", err)
	}
	e.Release()
	closeClient(t, c) // it was under way all the same
	checkCount(t, e.Lines(), 1)

	away := startClient(t, Config{Address: "unix://" + t.TempDir() + "/nobody"})
	ctx, cancel = context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	err = away.Log(ctx, record(decision.Deny, 1))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the exporter is away: dial unix") {
		t.Errorf("Log: got %v, want that the exporter is away", err)
	}
	left, err := away.Close(ctx)
	if left != 1 || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the exporter is away") {
		t.Errorf("Close: got %d left, %v, want 1 and why", left, err)
	}
}

func checkCount(t *testing.T, lines []streamtest.Line, want int) {
	t.Helper()
	if len(lines) != want {
		t.Errorf("lines at the exporter: got %d, want %d", len(lines), want)
	}
}

func TestRefusedRecord(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{})
	var refused *RefusedError
	if err := c.LogLine(within(t), []byte("[1]"), decision.Deny); !errors.As(err, &refused) || refused.Reason != "InvalidJSON" {
		t.Errorf("LogLine: got %v, want InvalidJSON", err)
	}
	if err := c.TryLogLine([]byte("[2]"), decision.Deny); err != nil {
		t.Errorf("TryLogLine: %v", err)
	}
	if err := c.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	if st := c.Stats(); st.Refused != 2 || st.Stored != 0 || len(st.Lost) != 0 {
		t.Errorf("Stats: got %+v, want 2 refused, and none lost: the exporter knows of them", st)
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
					t.Fatalf("Export with the exporter away: got %v, want an error: %t", err, wantErr)
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
			c := e.client(Config{Mode: mode, Timeout: patience})
			before := len(e.Lines())
			if err := c.Export(context.Background(), record(decision.Deny, 1)); err != nil {
				t.Fatalf("Export: %v", err)
			}
			checkCount(t, e.Lines(), before+1) // at once: it has waited
		}
	})
}

// offline is the address of an exporter that is away until come is called.
type offline struct {
	e    *exporter
	here atomic.Bool
}

func (o *offline) transport(string, *Config) (Dial, error) {
	return func(ctx context.Context) (net.Conn, error) {
		if !o.here.Load() {
			return nil, errors.New("away")
		}
		return new(net.Dialer).DialContext(ctx, "unix", o.e.path)
	}, nil
}

func (o *offline) config() Config {
	return Config{Address: "test://", Transports: map[string]Transport{"test": o.transport}}
}

// When memory is short a deny drives out what matters less, the least first, and
// what is lost is told in the stream, to the last record.
func TestShedsByPriority(t *testing.T) {
	o := &offline{e: newExporter(t)}
	config := o.config()
	config.MaxBufferedBytes = MinBufferedBytes
	c := startClient(t, config)
	refused := map[decision.Decision]int{}
	fill := func(d decision.Decision) (taken int) {
		for n := 1; ; n++ {
			if err := c.TryLog(record(d, n)); err != nil {
				if !errors.Is(err, ErrFull) {
					t.Fatalf("TryLog: got %v, want ErrFull", err)
				}
				refused[d]++
				return taken
			}
			if got := c.Stats().BufferedBytes; got > MinBufferedBytes {
				t.Fatalf("memory: got %d bytes, want at most %d", got, MinBufferedBytes)
			}
			taken++
		}
	}
	allows := fill(decision.Allow)
	for n := range 10 {
		if err := c.TryLog(record(decision.DryRun, n)); err != nil {
			t.Fatalf("dryrun %d: got %v, want that allows make room", n, err)
		}
	}
	if lost := c.Stats().Lost; lost[decision.Allow] < 10 || lost[decision.DryRun] != 0 {
		t.Errorf("lost: got %v, want allows only", lost)
	}
	denies := fill(decision.Deny)
	fill(decision.Warn)
	fill(decision.Allow)
	if allows < 50 || denies < 50 {
		t.Fatalf("taken: got %d allows and %d denies, want a buffer full of each", allows, denies)
	}
	o.here.Store(true)
	closeClient(t, c)
	got, lost := sequences(t, e(o).Lines())
	want := map[decision.Decision]int{
		decision.Allow: allows + refused[decision.Allow], decision.DryRun: 10, decision.Warn: 1, decision.Deny: 1,
	}
	if !maps.Equal(lost, want) {
		t.Errorf("told as lost: got %v, want %v", lost, want)
	}
	if len(got[decision.Deny]) != denies || len(got[decision.Allow]) != 0 {
		t.Errorf("stored: got %d denies and %d allows, want %d and 0", len(got[decision.Deny]), len(got[decision.Allow]), denies)
	}
	for i, n := range got[decision.Deny] {
		if n != i+1 {
			t.Fatalf("deny %d: got number %d: not in order", i+1, n)
		}
	}
}

func e(o *offline) *exporter { return o.e }

// The order of Keep is the user's to choose.
func TestKeepIsConfigurable(t *testing.T) {
	o := &offline{e: newExporter(t)}
	config := o.config()
	config.MaxBufferedBytes = MinBufferedBytes
	config.Keep = []decision.Decision{decision.Allow, decision.Deny}
	c := startClient(t, config)
	for c.Stats().Lost[decision.Deny] == 0 {
		_ = c.TryLog(record(decision.Deny, 1))
	}
	if err := c.TryLog(record(decision.Allow, 1)); err != nil {
		t.Errorf("allow, which is kept longest: got %v", err)
	}
	if err := c.TryLog(record(decision.Warn, 1)); err != nil {
		t.Errorf("warn, which is not listed and ranks with the first: got %v", err)
	}
	if err := c.TryLog(record(decision.Deny, 1)); !errors.Is(err, ErrFull) {
		t.Errorf("deny: got %v, want ErrFull", err)
	}
}

// A record for which somebody waits is not dropped for another.
func TestLogIsNotShed(t *testing.T) {
	o := &offline{e: newExporter(t)}
	config := o.config()
	config.MaxBufferedBytes = MinBufferedBytes
	c := startClient(t, config)
	var logs sync.WaitGroup
	for n := range 300 { // more than there is room for
		logs.Go(func() {
			if err := c.Log(within(t), record(decision.Allow, n)); err != nil {
				t.Errorf("Log: %v", err)
			}
		})
	}
	denies := 0
	for range 1000 {
		if c.TryLog(record(decision.Deny, denies)) == nil {
			denies++
		}
	}
	o.here.Store(true)
	logs.Wait()
	closeClient(t, c)
	got, lost := sequences(t, o.e.Lines())
	if len(got[decision.Allow]) != 300 || len(got[decision.Deny]) != denies {
		t.Errorf("stored: got %d allows and %d denies, want 300 and %d", len(got[decision.Allow]), len(got[decision.Deny]), denies)
	}
	if want := 1000 - denies; lost[decision.Deny] != want || lost[decision.Allow] != 0 {
		t.Errorf("told as lost: got %v, want %d denies", lost, want)
	}
}

// scriptedExporter is in the bubble of the test. judge says why a line is refused;
// nothing when it is not. QueueFull closes the connection, as the exporter does.
func scriptedExporter(t *testing.T, judge func(text string) (reason string)) (config Config, stored func() []string) {
	t.Helper()
	var mu sync.Mutex
	var lines []string
	acked := uint64(0)
	serve := func(nc net.Conn) {
		defer nc.Close()
		in := bufio.NewReader(nc)
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
		mu.Lock()
		n := acked
		mu.Unlock()
		_, _ = nc.Write(stream.Answer{Acked: n}.Append(nil))
		for {
			text, err := in.ReadString('\n')
			if err != nil {
				return
			}
			n++
			reply := stream.Ack{Through: n}.Append(nil)
			mu.Lock()
			reason := judge(text)
			switch reason {
			case "":
				lines = append(lines, text)
				acked = n
			case queueFull:
				reply = stream.Refused{Seq: n, Reason: reason}.Append(nil)
				reply = stream.Closing{Reason: "the queue is full"}.Append(reply)
			default:
				reply = stream.Refused{Seq: n, Reason: reason}.Append(nil)
				acked = n
			}
			mu.Unlock()
			if _, err := nc.Write(reply); err != nil || reason == queueFull {
				return
			}
		}
	}
	transport := func(string, *Config) (Dial, error) {
		return func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go serve(theirs)
			return ours, nil
		}, nil
	}
	return Config{Address: "test://", Transports: map[string]Transport{"test": transport}}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return lines
	}
}

// fullExporter refuses the first lines because its queue is full.
func fullExporter(t *testing.T, refusals int) (config Config, stored func() []string) {
	t.Helper()
	return scriptedExporter(t, func(string) string {
		if refusals--; refusals >= 0 {
			return queueFull
		}
		return ""
	})
}

// A full queue at the exporter is not a loss: the records are sent again, later,
// and the log says so once.
func TestQueueFullIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, stored := fullExporter(t, 20)
		var log strings.Builder
		config.Log = slog.New(slog.NewTextHandler(&log, nil))
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for n := range 5 {
			if err := c.TryLog(record(decision.Deny, n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Log(context.Background(), record(decision.Deny, 5)); err != nil {
			t.Fatalf("Log: %v", err)
		}
		if left, err := c.Close(context.Background()); left != 0 || err != nil {
			t.Fatalf("Close: got %d, %v", left, err)
		}
		for i, text := range stored() {
			if !strings.Contains(text, fmt.Sprintf(`"sequence":%d}`, i)) && i > 0 {
				t.Errorf("record %d: got %s, want all in order", i, text)
			}
		}
		if got := len(stored()); got != 6 {
			t.Errorf("stored: got %d, want 6", got)
		}
		// 20 pauses, all but the first few of which are the longest.
		if took := time.Since(began); took < 13*lastPause/2 || took > 20*lastPause {
			t.Errorf("took %v, want pauses that grow", took)
		}
		if st := c.Stats(); st.Refused != 0 || st.Stored != 6 || len(st.Lost) != 0 {
			t.Errorf("Stats: got %+v, want 6 stored", st)
		}
		if got := log.String(); strings.Count(got, "the queue is full") != 1 || strings.Count(got, "again") != 1 {
			t.Errorf("log: got\n%s\nwant that the queue is full, and that it is over, once each", got)
		}
	})
}

func TestLogSaysThatTheQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, _ := fullExporter(t, 1<<30)
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Log(ctx, record(decision.Deny, 5)); err == nil || !strings.Contains(err.Error(), "the queue is full") {
			t.Errorf("Log: got %v, want that the queue is full", err)
		}
		if left, _ := c.Close(ctx); left != 1 {
			t.Errorf("Close: got %d left, want 1", left)
		}
	})
}

// An overloaded client says so once a second, not for each record, and the sum
// is what is missing.
func TestLossRecordsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, stored := fullExporter(t, 0)
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		bad := &decision.Record{Decision: decision.Deny, Process: "guess"}
		for range 100 {
			if err := c.TryLog(bad); err == nil {
				t.Fatal("a bad record was taken")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if left, err := c.Close(context.Background()); left != 0 || err != nil {
			t.Fatalf("Close: got %d, %v", left, err)
		}
		sum := uint64(0)
		for _, text := range stored() {
			loss := parseLoss([]byte(text))
			if loss == nil || loss.until.Before(loss.since) {
				t.Fatalf("got %s, want a loss record", text)
			}
			sum += loss.kinds[kindOf(decision.Deny)]
		}
		if n := len(stored()); sum != 100 || n < 9 || n > 12 {
			t.Errorf("in 10 s: got %d loss records for %d records, want about one a second for 100", n, sum)
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
		e.start(e.crash())
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

// A loss record that the exporter refuses is told again, or left to the spill
// file: a loss is never forgotten.
func TestRefusedLossRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := 2
		config, stored := scriptedExporter(t, func(string) string {
			if refuse--; refuse >= 0 {
				return "TooLarge"
			}
			return ""
		})
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		bad := &decision.Record{Decision: decision.Deny, Process: "guess"}
		for range 3 {
			_ = c.TryLog(bad)
			time.Sleep(lossPause)
		}
		if left, err := c.Close(context.Background()); left != 0 || err != nil {
			t.Fatalf("Close: got %d, %v", left, err)
		}
		sum := uint64(0)
		for _, text := range stored() {
			sum += parseLoss([]byte(text)).kinds[kindOf(decision.Deny)]
		}
		if sum != 3 {
			t.Errorf("told: got %d records lost, want 3", sum)
		}
	})
}

// Close says that nobody was told.
func TestLossesThatAreNotTold(t *testing.T) {
	c := startClient(t, Config{Address: "unix://" + t.TempDir() + "/nobody"})
	_ = c.TryLog(&decision.Record{Decision: decision.Deny, Process: "guess"})
	if left, err := closeAway(t, c); left != 0 || err == nil {
		t.Errorf("Close: got %d left, %v, want 0 and an error", left, err)
	}
}

// A record that is large waits for room, and one that matters more does not wait
// for it: what is free is enough.
func TestDenyDoesNotYieldToALargeAllow(t *testing.T) {
	c := startClient(t, Config{Address: "unix://" + t.TempDir() + "/nobody", MaxBufferedBytes: MinBufferedBytes})
	for range 10 {
		if err := c.TryLog(record(decision.Deny, 1)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	large := make(chan error, 1)
	go func() {
		large <- c.Log(ctx, &decision.Record{Decision: decision.Allow, Message: strings.Repeat("x", 55_000)})
	}()
	waits := func() bool {
		c.link.mu.Lock()
		defer c.link.mu.Unlock()
		return c.link.waiters.len() > 0
	}
	for !waits() {
		runtime.Gosched()
	}
	if err := c.TryLog(record(decision.Allow, 1)); !errors.Is(err, ErrFull) {
		t.Errorf("TryLog of an allow: got %v, want that it leaves the room to the one that waits", err)
	}
	if err := c.TryLog(record(decision.Deny, 1)); err != nil {
		t.Errorf("TryLog of a deny: got %v, want nil", err)
	}
	cancel()
	if err := <-large; !errors.Is(err, context.Canceled) || !errors.Is(err, ErrFull) {
		t.Errorf("Log: got %v, want canceled and ErrFull", err)
	}
	if err := c.TryLog(record(decision.Allow, 1)); err != nil {
		t.Errorf("TryLog of an allow when nobody waits: got %v, want nil", err)
	}
}

// Large records of the past leave the buffer to small ones.
func TestSmallRecordsAfterLargeOnes(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{MaxBufferedBytes: MinBufferedBytes})
	for range 50 {
		if err := c.Log(within(t), &decision.Record{Message: strings.Repeat("x", 15_000)}); err != nil {
			t.Fatal(err)
		}
	}
	e.Hold()
	taken := 0
	for c.TryLog(&decision.Record{Message: strings.Repeat("x", 300)}) == nil {
		taken++
	}
	if taken < 25 {
		t.Errorf("taken: got %d records of 300 bytes into 64 KiB, want at least 25", taken)
	}
	e.Release()
	closeClient(t, c)
}

// A result that is there wins over a context that has ended.
func TestLogOfAStoredRecord(t *testing.T) {
	c := &Client{link: newLink(linkConfig{}, newOutbox(1<<20, 0, 4))}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 100 {
		result := make(chan error, 1)
		result <- nil
		if err := c.await(ctx, result); err != nil {
			t.Fatalf("got %v, want nil: the record is stored", err)
		}
	}
}

// What is logged after Close is nobody's loss but the caller's, who is told.
func TestTryLogDuringClose(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{})
	_ = c.TryLog(&decision.Record{Decision: decision.Deny, Process: "guess"})
	e.await("the loss record", func() bool { return len(e.Lines()) == 1 })
	e.Hold()
	if err := c.TryLog(record(decision.Deny, 1)); err != nil {
		t.Fatal(err)
	}
	e.await("a pending line", func() bool { return e.Pending() == 1 })
	closed := make(chan error, 1)
	go func() {
		_, err := c.Close(within(t))
		closed <- err
	}()
	for !errors.Is(c.TryLog(record(decision.Deny, 2)), ErrClosed) {
		runtime.Gosched()
	}
	e.Release()
	if err := <-closed; err != nil {
		t.Errorf("Close: got %v, want nil: everything is stored", err)
	}
}
