package client

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/decision"
)

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
	got, lost := sequences(t, o.e.Lines())
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

// What Keep lists first is kept longest, and what it does not list is the first to go.
func TestRanks(t *testing.T) {
	for name, test := range map[string]struct {
		keep []decision.Decision
		want [len(kinds)]int // of deny, error, warn, dryrun, allow and unspecified
	}{
		"default":     {defaultKeep, [len(kinds)]int{0, 1, 2, 3, 4, 5}},
		"some":        {[]decision.Decision{decision.Allow, decision.Deny}, [len(kinds)]int{1, 5, 5, 5, 0, 5}},
		"unspecified": {[]decision.Decision{Unspecified, decision.Deny}, [len(kinds)]int{1, 5, 5, 5, 5, 0}},
	} {
		c := startClient(t, Config{Address: "unix:///nobody", Keep: test.keep})
		if c.ranks != test.want {
			t.Errorf("%s: got %v, want %v", name, c.ranks, test.want)
		}
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
	for c.Stats().Buffered < 10 { // or there would be nothing to shed but denies
		runtime.Gosched()
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

// An overloaded client says so once a second, not for each record, and the sum
// is what is missing.
func TestLossRecordsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, config := inBubble(0)
		defer e.Close()
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
		_, lost := sequences(t, e.Lines())
		if n := len(e.Lines()); lost[decision.Deny] != 100 || n < 9 || n > 12 {
			t.Errorf("in 10 s: got %d loss records for %v, want about one a second for 100 denies", n, lost)
		}
	})
}

// A loss record that the exporter refuses is told again: a loss is never forgotten.
func TestRefusedLossRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, config := inBubble(0)
		defer e.Close()
		refuse := 2
		e.Refuse(func(clienttest.Line) (reason, detail string) {
			if refuse--; refuse >= 0 {
				return "TooLarge", ""
			}
			return "", ""
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
		if _, lost := sequences(t, e.Lines()); lost[decision.Deny] != 3 {
			t.Errorf("told: got %v, want 3 denies", lost)
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

// sequences returns the numbers of the records of d among lines, and the losses
// that were told.
func sequences(t *testing.T, lines []clienttest.Line) (got map[decision.Decision][]int, lost map[decision.Decision]int) {
	t.Helper()
	got, lost = map[decision.Decision][]int{}, map[decision.Decision]int{}
	for _, l := range lines {
		var r struct {
			EventType string
			Decision  decision.Decision
			Sequence  int
			Since     time.Time
			Until     time.Time
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
			if byDecision != byReason || byDecision == 0 || r.Since.IsZero() || r.Until.Before(r.Since) {
				t.Errorf("loss record: got %d by decision and %d by reason, want the same and a time: %s", byDecision, byReason, l.Text)
			}
			continue
		}
		got[r.Decision] = append(got[r.Decision], r.Sequence)
	}
	return got, lost
}

// closeAway closes c without an exporter.
func closeAway(t *testing.T, c *Client) (left int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	return c.Close(ctx)
}

// While room is short, each record arrives once and in its
// order, or is counted as lost.
func TestTryLogWithoutRoom(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{MaxBufferedBytes: MinBufferedBytes})
	const records, logEach = 3000, 30
	text := strings.Repeat("m", 8<<10)
	var logging sync.WaitGroup
	for _, d := range defaultKeep {
		logging.Go(func() {
			for n := 1; n <= records; n++ {
				r := &decision.Record{Decision: d, Sequence: uint64(n), Message: text[:rand.IntN(1<<rand.IntN(13))]}
				if n%logEach == 0 {
					if err := c.Log(within(t), r); err != nil {
						t.Errorf("%s %d: Log: %v", d, n, err)
					}
				} else if err := c.TryLog(r); err != nil && !errors.Is(err, ErrFull) {
					t.Errorf("%s %d: TryLog: %v", d, n, err)
				}
			}
		})
	}
	logging.Wait()
	closeClient(t, c)
	got, told := sequences(t, e.Lines())
	lost := c.Stats().Lost
	for _, d := range defaultKeep {
		last, logged := 0, 0
		for _, n := range got[d] {
			if n <= last {
				t.Fatalf("%s: got record %d behind %d", d, n, last)
			}
			if last = n; n%logEach == 0 {
				logged++
			}
		}
		if len(got[d])+int(lost[d]) != records || logged != records/logEach || told[d] != int(lost[d]) {
			t.Errorf("%s: got %d records, %d of them by Log, %d lost and %d of those told, want %d in all, %d by Log, and all told",
				d, len(got[d]), logged, lost[d], told[d], records, records/logEach)
		}
	}
}
