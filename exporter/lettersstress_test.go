package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/sinks"
)

// Random rejections, outages, redrives, purges and restarts of the delivery: at the end
// every record was accepted, or purged by the operator; the ledger says so, and no letter
// was accepted twice.
func TestLettersUnderStress(t *testing.T) {
	t.Parallel()
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			stress(t, seed)
		})
	}
}

func stress(t *testing.T, seed uint64) {
	const n = 600
	dice := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	opts := queue.Options{Directory: dir}
	q, err := queue.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { q.Close(context.Background()) }()

	var mu sync.Mutex
	accepted, purged, redriven := map[uint64]bool{}, map[uint64]bool{}, map[uint64]int{}
	wild := true
	f := &funcSink{}
	f.send = func(ctx context.Context, b sinks.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		if wild {
			switch dice.IntN(6) {
			case 0:
				return errNet
			case 1, 2:
				if len(b.Items) == 0 {
					return errNet
				}
				var items []int
				for i := range b.Items {
					if dice.IntN(3) == 0 {
						items = append(items, i)
					}
				}
				if len(items) > 0 && dice.IntN(2) == 0 {
					return reject(items...)
				}
				return reject()
			}
		}
		for _, it := range b.Items {
			accepted[it.Seq] = true
			if it.Late == sinks.Redriven {
				redriven[it.Seq]++
			}
		}
		return nil
	}
	cfg := SinkConfig{Name: "test", Config: f, OnReject: DeadLetter, DeadLetters: defaultDeadLetters(),
		Batch: sinks.BatchLimits{MaxRecords: 10, MaxBytes: 1 << 20},
		Retry: RetryConfig{InitialBackoff: config.Duration(time.Millisecond), MaxBackoff: config.Duration(2 * time.Millisecond)}}
	var d *delivery
	var stop func()
	begin := func() {
		c, err := q.Cursor("test", false)
		if err != nil {
			t.Fatal(err)
		}
		d, err = newDelivery(cfg, queueFacts{id: q.ID(), directory: dir, lost: func() []segment.SeqRange { return nil }, stored: q.LastSeq, readAhead: readAhead(dir, q)}, c, newMetrics("x").delivery("test"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		d.letters.account, d.letters.options.MaxBytes = patient{c}, 12000
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); d.run(ctx) }()
		stop = func() { cancel(); <-ended }
	}
	begin()
	ops := rand.New(rand.NewPCG(seed, 99))
	stored := 0
	for step := range 150 {
		if stored < n && ops.IntN(2) == 0 {
			put(t, q, stored+1, stored+10)
			stored += 10
		}
		switch ops.IntN(10) {
		case 0, 1:
			d.letters.redrive(nil)
		case 2, 3:
			list, _ := d.letters.list()
			if len(list) > 0 {
				l := list[ops.IntN(len(list))]
				d.letters.redrive([]uint64{l.Seq})
			}
		case 4:
			list, _ := d.letters.list()
			if len(list) > 0 {
				l := list[ops.IntN(len(list))]
				if k, _ := d.letters.purge([]uint64{l.Seq}); k == 1 {
					mu.Lock()
					purged[l.Seq] = true
					mu.Unlock()
				}
			}
		case 5:
			if step%5 == 0 {
				stop()
				if ops.IntN(2) == 0 {
					if err := q.Close(t.Context()); err != nil {
						t.Fatal(err)
					}
					if q, err = queue.Open(opts); err != nil {
						t.Fatal(err)
					}
				}
				begin()
			}
		}
		time.Sleep(time.Duration(ops.IntN(3000)) * time.Microsecond)
		a := q.Stats()
		s := a.Cursors["test"]
		if s.Delivered+s.Filtered+s.DeadLettered+s.Dropped+s.Corrupt+s.Pending(a.LastSeq) != a.LastSeq {
			t.Fatalf("the books do not balance: %+v", s)
		}
	}
	mu.Lock()
	wild = false
	mu.Unlock()
	defer func() { stop() }()
	for end := time.Now().Add(await.Left(t)); ; time.Sleep(5 * time.Millisecond) {
		d.letters.redrive(nil)
		if a := d.cursor.Account(); a.Pending(uint64(stored)) == 0 && a.DeadLettered == 0 && d.letters.stats().Letters == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it does not end: %+v %+v, %+v", d.cursor.Account(), d.letters.stats(), d.snapshot())
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for seq := uint64(1); seq <= uint64(stored); seq++ {
		if !accepted[seq] && !purged[seq] {
			t.Errorf("record %d is LOST: never accepted, never purged", seq)
		}
		if redriven[seq] > 1 {
			t.Errorf("the letter of record %d was accepted %d times, and nobody was killed", seq, redriven[seq])
		}
	}
	a := d.cursor.Account()
	if a.Delivered+a.Dropped != uint64(stored) || a.Dropped > uint64(len(purged)) {
		t.Errorf("account %+v; purged %d, stored %d", a, len(purged), stored)
	}
}
