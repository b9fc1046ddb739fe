package main

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/sinks"
)

// testLab is a lab without a binary.
func testLab(t *testing.T) *lab {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Else a process with the race detector takes a second to end.
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	return &lab{Site: &site.Site{Self: self, Disk: t.TempDir(), Short: t.TempDir()}, records: producers * linesInFlight}
}

// What the plain programs send arrives, in requests of the size that was asked for.
func TestPlainLoops(t *testing.T) {
	l := testLab(t)
	docket := tally{Records: 2400, Requests: 8}
	tests := map[string]struct {
		run  func(context.Context) (passage, error)
		want tally
	}{
		"one post loop":           {func(ctx context.Context) (passage, error) { return l.plainHTTP(ctx, 1, docket) }, tally{Records: 2400, Requests: 8, First: 300}},
		"more loops than batches": {func(ctx context.Context) (passage, error) { return l.plainHTTP(ctx, 10, docket) }, tally{Records: 2400, Requests: 8, First: 300}},
		"produce with headers":    {func(ctx context.Context) (passage, error) { return l.plainKafka(ctx, true, docket) }, tally{Records: 1800, Requests: 6, First: 300}},
		"produce without":         {func(ctx context.Context) (passage, error) { return l.plainKafka(ctx, false, docket) }, tally{Records: 1800, Requests: 6, First: 300}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := tt.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := tally{Records: p.Records, Requests: p.Requests, First: p.First}
			if got != tt.want || p.Seconds <= 0 || p.CPU <= 0 || p.sender <= 0 {
				t.Errorf("got %+v, want %+v and the time it took", p, tt.want)
			}
		})
	}
}

func TestPlainLoopsFail(t *testing.T) {
	l := testLab(t)
	nobody, err := process.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	var p produced
	if err := process.Call(t.Context(), l.Self, postLoopCommand, postLoop{URL: "http://" + nobody, Loops: 2, PerBatch: 1, Batches: 4}, &p); err == nil {
		t.Error("post: got no error")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := (produceLoop{Broker: nobody, PerRequest: 1, Requests: 1}).run(ctx); err == nil {
		t.Error("produce: got no error")
	}
}

func TestPassagesAddUp(t *testing.T) {
	sums := passages{}
	for range 2 {
		sums.add("a", passage{tally{Records: 10, Requests: 3, First: 4, Seconds: 3, CPU: 5}, 6})
	}
	if got, want := sums["a"], (passage{tally{Records: 20, Requests: 6, First: 8, Seconds: 6, CPU: 10}, 12}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Each batch is posted once, and each loop keeps its connection.
func TestPostLoopsShareTheBatches(t *testing.T) {
	var posts, connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { posts.Add(1) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	if _, err := (postLoop{URL: server.URL, Loops: 4, PerBatch: 1, Batches: 50}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if posts.Load() != 50 || connections.Load() > 4 {
		t.Errorf("got %d posts over %d connections, want 50 over 4 at most", posts.Load(), connections.Load())
	}
}

func TestAcceptanceIsOfAllSinks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	const records = 2 * producers * linesInFlight
	if err := fillQueue(t.Context(), dir, records); err != nil {
		t.Fatal(err)
	}
	var a acceptance
	for _, step := range []struct {
		name        string
		count, want int
	}{{"one", 1, records}, {"many", 3, 4 * records}} {
		if err := a.add(t.Context(), dir, step.name, step.count, records); err != nil {
			t.Fatal(err)
		}
		if a.records != step.want || a.took <= 0 || a.cpu <= 0 {
			t.Errorf("%s: got %+v, want %d records", step.name, a, step.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := a.add(ctx, dir, "never", 1, records+1); err == nil {
		t.Error("a sink that does not get enough: got no error")
	}
}

func TestAcceptorsAreDoneWhenEachIs(t *testing.T) {
	crowd := newAcceptors(2, 10)
	for _, step := range []struct {
		member, items int
		done          bool
	}{{0, 10, false}, {1, 9, false}, {1, 1, true}} {
		if err := crowd.members[step.member].Send(t.Context(), sinks.Batch{Items: make([]sinks.Item, step.items)}); err != nil {
			t.Fatal(err)
		}
		done := false
		select {
		case <-crowd.done:
			done = true
		default:
		}
		if done != step.done {
			t.Errorf("%d more to %d: got done: %v, want %v", step.items, step.member, done, step.done)
		}
	}
	if !crowd.last.After(crowd.first) {
		t.Errorf("got the last Send at %v and the first at %v", crowd.last, crowd.first)
	}
}

// The experiments with the real docket, on little: each measures all of its rows.
func TestDeliveryExperiments(t *testing.T) {
	l := docketLab(t)
	for _, e := range experiments() {
		if !slices.Contains([]string{"accepting", "backlog", "http", "kafka"}, e.Name) {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			values, err := e.run(l, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, want := slices.Sorted(maps.Keys(values)), valueKeys(t, e.Name); !slices.Equal(got, want) {
				t.Errorf("got values for %v, want %v", got, want)
			}
			for key, value := range values {
				if value <= 0 {
					t.Errorf("%s: got %v", key, value)
				}
			}
		})
	}
	t.Run("docket that cannot deliver", func(t *testing.T) {
		dir, records, remove, err := l.backlogOf(t.Context(), producers)
		if err != nil {
			t.Fatal(err)
		}
		defer remove()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d, err := l.startDestination(ctx, receiveCommand)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Kill()
		s, err := l.startSidecar(ctx, dir, heldBack)
		if err != nil {
			t.Fatal(err)
		}
		defer s.kill()
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, err := s.deliver(ctx, heldBack, d, records); err == nil || !strings.Contains(err.Error(), "docket is running") {
			t.Errorf("got error %v, want one with what docket has logged", err)
		}
	})
	left, err := os.ReadDir(l.Disk)
	if err != nil || len(left) > 0 {
		t.Errorf("got %v left on the disk and error %v, want nothing", left, err)
	}
}
