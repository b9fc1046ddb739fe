package cli

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/internal/testcli"
)

var restarts = flag.Int("restarts", 100, "how often TestClientAcrossRestarts kills docket")

// clientBuffer is too small for what is logged while docket is away, so that
// records must be shed.
const clientBuffer = 256 << 10

// TestClientAcrossRestarts is the promise of the client library: docket is killed
// again and again under a client that runs, and every Log that returned nil is
// in the export exactly once, and what was shed is
// what is missing: by the client's own count, by what it told in the stream, and
// by docket's ledger.
func TestClientAcrossRestarts(t *testing.T) {
	t.Parallel()
	restarts := onceIfShort(*restarts)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "docket.yaml"), strings.NewReplacer("ADMIN", admin, "DIR", dir).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: engine
  unix: {path: DIR/docket.sock}
queue: {directory: DIR/queue, maxBytes: 64Mi}
sinks:
- name: export
  batch: {maxWait: 5ms}
  file: {directory: DIR/export}
admin: {address: "ADMIN"}
`))
	w := startWorkload(t, "unix://"+filepath.Join(dir, "docket.sock"))
	eventually(t, "records that find no room", func() bool { return len(w.client.Stats().Lost) > 0 })
	for n := range restarts {
		docket := startDocket(t, dir)
		if n%10 < 9 { // else it may be killed before it has met the client
			eventually(t, "a connection", func() bool { return w.client.Stats().Connected })
		}
		time.Sleep(time.Duration(dice.Int64N(int64(100 * time.Millisecond)))) // the moment of the kill is what is random here
		kill(t, docket)
	}
	docket := startDocket(t, dir)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	w.end()
	stats := w.client.Stats()
	status := waitDelivered(t, admin, stats.Stored)
	interrupt(t, docket)
	if err := docket.Wait(); err != nil {
		t.Errorf("docket run: %v", err)
	}

	stored, told := w.read(exportedLines(t, filepath.Join(dir, "export")))
	lost := uint64(0)
	for d, n := range stats.Lost {
		lost += n
		if told[string(d)] != n || status.Ledger.Lost[string(d)] != n {
			t.Errorf("lost %s: the client has counted %d, told %d, and the ledger says %d", d, n, told[string(d)], status.Ledger.Lost[string(d)])
		}
	}
	logged := w.logged.Load()
	tried := w.tried.Load()
	if want := logged + tried - lost; uint64(stored) != want {
		t.Errorf("stored: got %d records, want %d: %d logged and %d tried, %d lost", stored, want, logged, tried, lost)
	}
	if lost == 0 || logged == 0 {
		t.Errorf("got %d logged and %d lost, want some of both: the test tests little", logged, lost)
	}
	t.Logf("%d restarts: %d connections, %d records logged, %d tried, %d lost %v, all of them told",
		restarts, stats.Connections, logged, tried, lost, stats.Lost)
}

// workload is an engine that logs without end: eight goroutines wait for each
// record to be on disk, four never wait.
type workload struct {
	t       *testing.T
	client  *client.Client
	stop    context.CancelFunc
	running sync.WaitGroup

	next   atomic.Uint64 // number of the record made last
	logged atomic.Uint64 // records that Log has returned nil for
	tried  atomic.Uint64 // calls of TryLog

	mu    sync.Mutex
	known map[uint64]bool // numbers that Log has returned nil for; guarded by mu
}

func startWorkload(t *testing.T, address string) *workload {
	t.Helper()
	c, err := client.New(client.Config{Address: address, Producer: "engine", MaxBufferedBytes: clientBuffer})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &workload{t: t, client: c, stop: stop, known: map[uint64]bool{}}
	for range 8 {
		w.running.Go(func() { w.log(ctx) })
	}
	for _, d := range []decision.Decision{decision.Deny, decision.Warn, decision.DryRun, decision.Allow} {
		w.running.Go(func() { w.tryLog(ctx, d) })
	}
	t.Cleanup(func() {
		stop()
		w.running.Wait()
		_, _ = c.Close(ctx) // of a test that has failed
	})
	return w
}

func (w *workload) record(d decision.Decision) *decision.Record {
	return &decision.Record{Decision: d, Process: decision.Admission, Sequence: w.next.Add(1), Message: strings.Repeat("m", 400)}
}

func (w *workload) log(ctx context.Context) {
	for ctx.Err() == nil {
		r := w.record(decision.Deny)
		// Not ctx: what it would interrupt might be stored or not.
		if err := w.client.Log(context.Background(), r); err != nil {
			w.t.Errorf("Log: %v", err)
			return
		}
		w.logged.Add(1)
		w.mu.Lock()
		w.known[r.Sequence] = true
		w.mu.Unlock()
	}
}

// tryLog logs 4,000 records a second: more than the buffer takes while docket
// starts.
func (w *workload) tryLog(ctx context.Context, d decision.Decision) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for range 40 {
			w.tried.Add(1)
			_ = w.client.TryLog(w.record(d)) // an error is counted, which is what is tested
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// end stops logging and waits until the client has sent everything.
func (w *workload) end() {
	w.t.Helper()
	w.stop()
	w.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), await.Left(w.t))
	defer cancel()
	if left, err := w.client.Close(ctx); left != 0 || err != nil {
		w.t.Fatalf("Close: got %d left, %v, want 0, nil", left, err)
	}
}

// read counts the records of an export, each of which may be there once, and
// what was told of losses.
func (w *workload) read(lines []string) (stored int, told map[string]uint64) {
	w.t.Helper()
	told = map[string]uint64{}
	seen := map[uint64]bool{}
	for _, text := range lines {
		var r struct {
			EventType string
			Sequence  uint64
			Lost      map[string]uint64
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			w.t.Fatalf("exported line %q: %v", text, err)
		}
		if r.EventType == client.LossEventType {
			for d, n := range r.Lost {
				told[d] += n
			}
			continue
		}
		if seen[r.Sequence] {
			w.t.Errorf("record %d is in the export more than once", r.Sequence)
		}
		seen[r.Sequence] = true
	}
	for n := range w.known {
		if !seen[n] {
			w.t.Errorf("record %d: Log returned nil, and it is not in the export", n)
		}
	}
	return len(seen), told
}
