package exporter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/sinks"
)

// A full queue drops records of the batch that is under way, and of those behind. No record is sent twice, each is what it was, in order,
// and the account knows of every one.
func TestDropOldestOverABatchUnderWay(t *testing.T) {
	const file, size = 16 << 10, 1000
	dir := t.TempDir()
	q, err := queue.Open(queue.Options{Directory: dir, SegmentBytes: file, MaxBytes: 6 * file, WhenFull: queue.DropOldest})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close(context.Background()) })
	c, err := q.Cursor("test", false)
	if err != nil {
		t.Fatal(err)
	}
	text := func(seq uint64) []byte {
		return fmt.Appendf(nil, `{"n":%d,"pad":"%s"}`, seq, bytes.Repeat([]byte{byte('a' + seq%26)}, size))
	}
	var mu sync.Mutex
	var taken []uint64
	pass := make(chan struct{})
	f := &funcSink{send: func(ctx context.Context, b sinks.Batch) error {
		select {
		case <-pass:
		case <-ctx.Done():
			return ctx.Err()
		}
		mu.Lock()
		defer mu.Unlock()
		for _, it := range b.Items {
			if !bytes.Equal(it.Record, text(it.Seq)) {
				return errors.New("another record")
			}
			taken = append(taken, it.Seq)
		}
		return nil
	}}
	cfg := SinkConfig{Name: "test", Config: f, OnReject: DeadLetter, DeadLetters: defaultDeadLetters(),
		Batch: sinks.BatchLimits{MaxRecords: 10, MaxBytes: 1 << 20},
		Retry: RetryConfig{InitialBackoff: config.Duration(time.Millisecond), MaxBackoff: config.Duration(2 * time.Millisecond)}}
	d, err := newDelivery(cfg, queueFacts{id: q.ID(), directory: dir, lost: func() []segment.SeqRange { return nil }, stored: q.LastSeq, readAhead: readAhead(dir, q)}, c, newMetrics("x").delivery("test"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	start(t, d)
	const n = 300
	for seq := uint64(1); seq <= n; seq += 10 {
		var lines []byte
		for s := seq; s < seq+10; s++ {
			lines = append(append(lines, text(s)...), '\n')
		}
		settled := make(chan struct{})
		if err := q.Append(t.Context(), &queue.Chunk{Source: "s", Received: time.Now(), Records: lines, Count: 10}, func() { close(settled) }); err != nil {
			t.Fatal(err)
		}
		<-settled
		if seq > n/2 && seq%30 == 1 {
			pass <- struct{}{}
		}
	}
	close(pass)
	await.Until(t, "all is done", func() bool { return d.cursor.Account().Pending(n) == 0 })
	mu.Lock()
	defer mu.Unlock()
	a := d.cursor.Account()
	if a.Dropped == 0 || a.Delivered+a.Dropped != n || a.Delivered > uint64(len(taken)) {
		t.Errorf("account %+v, and %d records were taken; want some dropped, and %d in all", a, len(taken), n)
	}
	if !slices.IsSorted(taken) || len(slices.Compact(slices.Clone(taken))) != len(taken) {
		t.Errorf("taken %v, want each once, in order", taken)
	}
}
