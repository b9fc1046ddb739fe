package exporter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktest"
	"github.com/docket-export/docket/sources"
)

// exactly is an exporter whose sink writes to a topic in transactions, with what outlives its
// processes. Its records are {"n":seq}; the filter leaves out 6, and the topic rejects 3 and 9.
type exactly struct {
	t       *testing.T
	topic   *sinktest.Topic
	dir     string // of the queue, of the process that runs
	policy  OnReject
	filter  string
	most    sinks.BatchLimits // of Gather
	e       *Exporter
	log     *bytes.Buffer
	end     func()
	process int // that runs
	// first is the cursors file as it was before the first request.
	first []byte

	mu       sync.Mutex
	requests int                // of all processes
	accepts  map[uint64]bool    // rejected no more; guarded by mu
	dead     map[string]bool    // labels of processes that were killed; guarded by mu
	fault    fault              // guarded by mu
	died     chan struct{}      // closed when the process is killed
	copied   string             // the directory of the queue as the kill has left it
	seen     []sinktest.Request // guarded by mu
}

// fault is what happens at one request of all.
type fault struct {
	number int // of the request, from 1; 0: none
	after  bool
	kill   bool
}

func (f fault) String() string {
	what, when := "cut off", "before"
	if f.kill {
		what = "killed"
	}
	if f.after {
		when = "behind"
	}
	return fmt.Sprintf("%s %s request %d", what, when, f.number)
}

var (
	errKilled = errors.New("killed")
	errCutOff = errors.New("cut off")
)

func newExactly(t *testing.T, f fault) *exactly {
	t.Helper()
	x := &exactly{
		t: t, topic: &sinktest.Topic{}, dir: filepath.Join(t.TempDir(), "queue"), policy: DeadLetter, filter: "record.n != 6", log: &bytes.Buffer{},
		accepts: map[uint64]bool{}, dead: map[string]bool{}, fault: f, died: make(chan struct{}),
	}
	x.topic.Hook = x.request
	x.topic.Rejects = func(it sinks.Item) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return (it.Seq == 3 || it.Seq == 9) && !x.accepts[it.Seq]
	}
	return x
}

// request is the topic's hook.
func (x *exactly) request(at sinktest.Request) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dead[at.Sink] {
		return errKilled
	}
	if !at.Done {
		x.requests++
		x.seen = append(x.seen, at)
		if x.first == nil {
			x.first, _ = os.ReadFile(filepath.Join(x.dir, state.CursorsFile))
		}
	}
	if x.requests != x.fault.number || at.Done != x.fault.after {
		return nil
	}
	if !x.fault.kill {
		return errCutOff
	}
	x.dead[at.Sink] = true
	x.copied = x.dir + "-copy"
	if err := copyLive(x.dir, x.copied); err != nil {
		x.t.Error(err)
	}
	close(x.died)
	return errKilled
}

// copyLive copies a directory that others change.
func copyLive(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	})
}

func (x *exactly) sink() SinkConfig {
	s := defaultSink()
	s.Name, s.Kind, s.Batch = "bus", "topic", sinks.BatchLimits{MaxRecords: 5, MaxBytes: 1 << 20}
	s.OnReject, s.When = x.policy, x.filter
	s.Retry = RetryConfig{InitialBackoff: config.Duration(time.Millisecond), MaxBackoff: config.Duration(2 * time.Millisecond)}
	s.Config = &sinktest.TopicConfig{Topic: x.topic, Label: fmt.Sprint("process ", x.process), Most: x.most}
	return s
}

// start begins a process on the queue, which takes in records before its sink is opened.
func (x *exactly) start(from, to int) {
	x.t.Helper()
	x.process++
	cfg := &Config{
		Queue:  QueueConfig{Directory: x.dir, MaxBytes: 4 << 20, WhenFull: Block, Retain: &RetainConfig{MaxBytes: 2 << 20}},
		Limits: defaultLimits(), Sinks: []SinkConfig{x.sink()},
		Shutdown: ShutdownConfig{DrainTimeout: config.Duration(time.Millisecond)}, // a killed one drains nothing
	}
	e, err := New(cfg, Options{Log: slog.New(slog.NewTextHandler(&locked{w: x.log}, nil))})
	if err != nil {
		x.t.Fatal(err)
	}
	x.e = e
	if to >= from {
		x.take(from, to)
	}
	ctx, stop := context.WithCancel(x.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	x.end = sync.OnceFunc(func() {
		stop()
		<-ended
	})
	x.t.Cleanup(x.end)
}

// locked is a writer that several write to.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// take stores records.
func (x *exactly) take(from, to int) {
	x.t.Helper()
	s, _, err := intake{ingest: x.e.ingest}.Open(x.t.Context(), sources.Opening{Source: "test"})
	if err != nil {
		x.t.Fatal(err)
	}
	defer s.Close()
	for n := from; n <= to; n++ {
		submit(x.t, s, fmt.Sprintf("{\"n\":%d}\n", n))
	}
}

// cursors says in which state the file of that name is found behind a kill.
type cursors string

const (
	asTheyWere  cursors = "as they were"
	fromTheTime cursors = "of the start"
	lostCursors cursors = "lost"
)

// restart begins the next process on what a kill has left.
func (x *exactly) restart(c cursors) {
	x.t.Helper()
	x.end() // the one that was killed, which has no effect any more
	x.dir = x.copied
	path := filepath.Join(x.dir, state.CursorsFile)
	var err error
	switch c {
	case fromTheTime:
		err = os.WriteFile(path, x.first, 0o600)
	case lostCursors:
		err = os.Remove(path)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	x.start(1, 0)
}

// step does something, and waits until ok. When the process is killed meanwhile the next one
// begins, and does it where it is not done.
func (x *exactly) step(what string, c cursors, do func() error, ok func() bool) {
	x.t.Helper()
	for done := false; ; {
		x.mu.Lock()
		dead := x.dead[fmt.Sprint("process ", x.process)]
		x.mu.Unlock()
		switch {
		case dead:
			x.restart(c)
			done = false
		case !done:
			if err := do(); err != nil && !x.isDead() {
				x.t.Fatalf("%s: %v", what, err)
			}
			done = true
			x.until(what, ok)
		default:
			return
		}
	}
}

func (x *exactly) isDead() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.dead[fmt.Sprint("process ", x.process)]
}

// until waits for ok, or for a kill.
func (x *exactly) until(what string, ok func() bool) {
	x.t.Helper()
	for end := time.Now().Add(await.Left(x.t)); !ok() && !x.isDead(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatalf("no time is left to wait for %s; %+v\n%s", what, x.status(), x.log.String())
		}
	}
}

func (x *exactly) account() state.Account { return x.e.queue.Stats().Cursors["bus"] }

func (x *exactly) status() SinkStatus {
	for _, s := range x.e.Status().Sinks {
		if s.Name == "bus" {
			return s
		}
	}
	return SinkStatus{}
}

func nothing() error { return nil }

// deliver is the life of fifteen records: twelve are there at the start, of which 3 and 9 are
// set aside; 3 is redriven, and three more come.
func (x *exactly) deliver(c cursors) {
	x.t.Helper()
	x.start(1, 12)
	x.step("twelve records", c, nothing, func() bool { return x.account().Next == 13 })
	x.mu.Lock()
	x.accepts[3] = true
	x.mu.Unlock()
	x.step("redriven", c, func() error {
		if x.policy == DeadLetter {
			_, err := x.e.letters("bus").redrive([]uint64{3})
			return err
		}
		return nil
	}, func() bool {
		_, there, err := x.e.letters("bus").get("3")
		return err == nil && !there && x.account().Next == 13
	})
	x.step("three more", c, func() error {
		if last := int(x.e.queue.LastSeq()); last < 15 {
			x.take(last+1, 15)
		}
		return nil
	}, func() bool { return x.account().Next == 16 })
}

// taken is how often the topic has each record, and an error unless those that are no
// redriven ones are in order, from the last replay on.
func (x *exactly) taken() map[uint64]int {
	x.t.Helper()
	counts := map[uint64]int{}
	var last uint64
	for _, r := range x.topic.Taken() {
		counts[r.Seq]++
		if want := fmt.Sprintf(`{"n":%d}`, r.Seq); r.Text != want {
			x.t.Errorf("record %d: got %s, want %s", r.Seq, r.Text, want)
		}
		if r.Late == sinks.Redriven {
			continue
		}
		if r.Seq <= last && r.Seq != 8 { // where the replay begins
			x.t.Errorf("record %d comes behind %d", r.Seq, last)
		}
		last = r.Seq
	}
	return counts
}

// check wants each record in the topic so many times, and the books to balance.
func (x *exactly) check(times map[uint64]int, want state.Account) {
	x.t.Helper()
	if got := x.taken(); !maps.Equal(got, times) {
		x.t.Errorf("the topic has %v, want %v", got, times)
	}
	want.Next = 16
	got := x.account()
	got.Replayed, got.ReplayTo = 0, 0
	if got != want {
		x.t.Errorf("got the account %+v, want %+v", got, want)
	}
	s := x.e.Status()
	l := s.Ledger.Sinks["bus"]
	if sum := l.Delivered + l.Filtered + l.DeadLettered + l.Dropped + l.Corrupt + l.Pending; sum != s.Ledger.Stored || l.Pending != 0 {
		x.t.Errorf("the ledger does not balance: stored %d, %+v", s.Ledger.Stored, l)
	}
	if at, found := x.topic.Position(); !found || at.Next > 16 || x.status().Transactions.Position != at.Next {
		x.t.Errorf("the topic is at %+v, and the status says %+v", at, x.status().Transactions)
	}
	if x.t.Failed() {
		x.t.Log(x.log.String())
	}
}

// each is every record but those, once.
func each(but ...uint64) map[uint64]int {
	times := map[uint64]int{}
	for seq := uint64(1); seq <= 15; seq++ {
		if !slices.Contains(but, seq) {
			times[seq] = 1
		}
	}
	return times
}

// requestsOf returns the requests that life makes when nothing fails.
func requestsOf(t *testing.T, life func(x *exactly)) (n int) {
	t.Run("nothing fails", func(t *testing.T) {
		x := newExactly(t, fault{})
		life(x)
		n = x.requests
	})
	if n < 3 {
		t.Fatalf("%d requests were made, want more", n)
	}
	return n
}

// faults are all there are of a life with so many requests.
func faults(requests int, kill ...bool) (all []fault) {
	for n := 1; n <= requests; n++ {
		for _, kill := range kill {
			all = append(all, fault{n, false, kill}, fault{n, true, kill})
		}
	}
	return all
}

// A request is lost, or its answer, or the process is killed before or behind one: each
// record is in the topic once, whatever the cursors file has kept of it. A redriven one may
// come twice.
func TestExactlyOnceAtEveryRequest(t *testing.T) {
	life := func(c cursors, policy OnReject, vague bool) func(x *exactly) {
		return func(x *exactly) {
			x.policy, x.topic.Vague = policy, vague
			x.deliver(c)
			times, want := each(6, 9), state.Account{Delivered: 13, Filtered: 1, DeadLettered: 1}
			if policy == DropRejected {
				dropped := x.account().Dropped // behind a kill nothing tells them from delivered ones
				times, want = each(3, 6, 9), state.Account{Delivered: 14 - dropped, Filtered: 1, Dropped: dropped}
				if !x.fault.kill && dropped != 2 {
					t.Errorf("%d records are dropped, want 2", dropped)
				}
			}
			if got := x.taken()[3]; got == 2 && x.fault.number > 0 {
				times[3] = 2
			}
			x.check(times, want)
		}
	}
	for _, tt := range []struct {
		name    string
		cursors cursors
		policy  OnReject
		vague   bool
		kill    []bool
	}{
		{"dead letters", asTheyWere, DeadLetter, false, []bool{false, true}},
		{"old cursors", fromTheTime, DeadLetter, false, []bool{true}},
		{"no cursors", lostCursors, DeadLetter, false, []bool{true}},
		{"halves", fromTheTime, DeadLetter, true, []bool{false, true}},
		{"dropped", asTheyWere, DropRejected, false, []bool{false, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			live := life(tt.cursors, tt.policy, tt.vague)
			for _, f := range faults(requestsOf(t, live), tt.kill...) {
				t.Run(f.String(), func(t *testing.T) { live(newExactly(t, f)) })
			}
		})
	}
}

// A sink that was fenced does not begin anew when its configuration changes, nor with a replay.
func TestFencedSinkStaysSo(t *testing.T) {
	x := newExactly(t, fault{})
	x.start(1, 5)
	x.until("delivered", func() bool { return x.account().Next == 6 })
	x.e.metrics.transactionsOf("bus").Fenced() // as the sink tells
	requests := func() int {
		x.mu.Lock()
		defer x.mu.Unlock()
		return len(x.seen)
	}
	before := requests()
	begin := map[string]func() error{
		"reload": func() error {
			cfg := *x.e.config()
			x.process++
			cfg.Sinks = []SinkConfig{x.sink()}
			_, err := x.e.Reload(&cfg)
			return err
		},
		"replay": func() error {
			_, err := x.e.Replay(t.Context(), "bus", inspect.ReplayFrom{Seq: 2}, false)
			return err
		},
	}
	for name, do := range begin {
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		x.until(name, func() bool { return x.status().Reason == sinks.Fenced })
		if s := x.status(); s.State != Error {
			t.Errorf("after a %s: got %+v, want it in Error", name, s)
		}
	}
	if got := requests(); got != before {
		t.Errorf("the topic got %d requests more", got-before)
	}
}

// A replay is cut off, or killed, at any request: from the record where it begins on each
// record is in the topic twice, before that once.
func TestReplayExactlyOnceAtEveryRequest(t *testing.T) {
	life := func(x *exactly) {
		x.deliver(asTheyWere)
		before := x.account().Replayed
		x.step("replayed", asTheyWere, func() error {
			if x.account().Replayed > before {
				return nil // the process before has set it back
			}
			_, err := x.e.Replay(x.t.Context(), "bus", inspect.ReplayFrom{Seq: 8}, false)
			return err
		}, func() bool { return x.account().Next == 16 && x.account().Replayed > before })
		times := each(6, 9)
		for seq := range times {
			if seq >= 8 {
				times[seq] = 2
			}
		}
		if got := x.taken()[3]; got == 2 && x.fault.number > 0 {
			times[3] = 2
		}
		x.check(times, state.Account{Delivered: 13, Filtered: 1, DeadLettered: 1})
	}
	for _, f := range faults(requestsOf(t, life), false, true) {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			life(newExactly(t, f))
		})
	}
}
