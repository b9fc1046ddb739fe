package main

import (
	"context"
	"fmt"
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

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/sinks"
)

// What the plain programs send arrives, in requests of the size that was asked for.
func TestPlainLoops(t *testing.T) {
	for name, tt := range map[string]struct {
		run            func(*lab) (came, sent stint)
		records, parts int // that came behind the first request
	}{
		"one post loop":           {func(l *lab) (came, sent stint) { return l.plainHTTP(1, 2400, 300) }, 2100, 7},
		"more loops than batches": {func(l *lab) (came, sent stint) { return l.plainHTTP(10, 2400, 300) }, 2100, 7},
		"produce":                 {func(l *lab) (came, sent stint) { return l.plainKafka(2400, 300) }, 1500, 5},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, testLab(t), func(l *lab) {
				came, sent := tt.run(l)
				if came.Records != tt.records || int(came.Parts) != tt.parts || came.Took <= 0 || came.CPU <= 0 {
					t.Errorf("got %+v, want %d records in %d requests and the time they took", came, tt.records, tt.parts)
				}
				if sent.Records != tt.records+300 || sent.CPU <= 0 {
					t.Errorf("sent: got %+v, want %d records and what they cost", sent, tt.records+300)
				}
			})
		})
	}
}

func TestProduceLoopFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := (produceLoop{Broker: process.FreeAddress(), PerRequest: 1, Requests: 1}).run(ctx); err == nil {
		t.Error("got no error")
	}
}

func TestStintsAddUp(t *testing.T) {
	sums := stints{}
	for range 2 {
		sums.add("a", stint{Records: 10, Parts: 4, Took: time.Second, CPU: time.Millisecond})
	}
	got := sums["a"]
	if want := (stint{Records: 20, Parts: 8, Took: 2 * time.Second, CPU: 2 * time.Millisecond}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.rate() != 10 || got.perPart() != 2.5 || got.cpuOfMillion() != 100 {
		t.Errorf("got %v records/s, %v in a part, %v s for a million, want 10, 2.5 and 100", got.rate(), got.perPart(), got.cpuOfMillion())
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

func TestAcceptIsOfAllSinks(t *testing.T) {
	in(t, testLab(t), func(l *lab) {
		dir, records := l.backlogOf(2 * load.Producers * load.Window)
		queueDir := filepath.Join(dir, "queue")
		for _, count := range []int{1, 3} {
			if got := accept(l.T, queueDir, fmt.Sprint("of-", count), count, records); got.Records != count*records || got.Took <= 0 || got.CPU <= 0 {
				t.Errorf("%d sinks: got %+v, want %d records", count, got, count*records)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := trial.Run(ctx, func(tr *trial.T) { accept(tr, queueDir, "never", 1, records+1) }); err == nil {
			t.Error("a sink that does not get enough: got no error")
		}
	})
}

func TestAcceptorIsDoneWithAllRecords(t *testing.T) {
	done := make(chan *acceptor, 1)
	a := &acceptor{missing: 10, done: done}
	for _, items := range []int{9, 1} {
		if len(done) > 0 {
			t.Error("an acceptor is done before it has all records")
		}
		if err := a.Send(t.Context(), sinks.Batch{Items: make([]sinks.Item, items)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(done) != 1 || !a.last.After(a.first) {
		t.Errorf("got %d done, the last Send at %v and the first at %v", len(done), a.last, a.first)
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
			var values values
			in(t, l, func(l *lab) { values = l.once(&e) })
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
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := trial.Run(ctx, func(tr *trial.T) {
			at := *l
			at.T = tr
			dir, records := at.backlogOf(load.Producers)
			var attempts atomic.Int32
			held := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusServiceUnavailable)
				if attempts.Add(1) == 2 { // a backoff after the first: docket has said that it is running
					cancel()
				}
			}))
			defer held.Close()
			at.deliver(dir, heldBack, records, serveRecords, func(string) string { return httpEntry(heldBack, held.Listener.Addr().String(), 1) })
		})
		if err == nil || !strings.Contains(err.Error(), "docket is running") {
			t.Errorf("got error %v, want one with what docket has logged", err)
		}
	})
	left, err := os.ReadDir(l.Disk)
	if err != nil || len(left) > 0 {
		t.Errorf("got %v left on the disk and error %v, want nothing", left, err)
	}
}
