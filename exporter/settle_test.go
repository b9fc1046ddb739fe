package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/sinks"
)

// realDelivery is one from a queue with n records.
func realDelivery(t *testing.T, n int, cfg SinkConfig, letterBytes int64) (*delivery, *queue.Queue) {
	t.Helper()
	dir := t.TempDir()
	q, err := queue.Open(queue.Options{Directory: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close(context.Background()) })
	put(t, q, 1, n)
	c, err := q.Cursor("test", false)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Name, cfg.DeadLetters = "test", defaultDeadLetters()
	if cfg.Batch.MaxRecords == 0 {
		cfg.Batch = sinks.DefaultBatch()
	}
	cfg.Batch.MaxWait = 0
	cfg.Retry = RetryConfig{InitialBackoff: config.Duration(10 * time.Millisecond), MaxBackoff: config.Duration(20 * time.Millisecond)}
	if cfg.OnReject == "" {
		cfg.OnReject = DeadLetter
	}
	d, err := newDelivery(cfg, queueFacts{id: q.ID(), directory: dir, lost: func() []segment.SeqRange { return nil }, stored: q.LastSeq, readAhead: readAhead(dir, q)}, c, newMetrics("x").delivery("test"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if letterBytes > 0 {
		d.letters.options.MaxBytes = letterBytes
	}
	return d, q
}

func put(t *testing.T, q *queue.Queue, from, to int) {
	t.Helper()
	var lines []byte
	for i := from; i <= to; i++ {
		lines = fmt.Appendf(lines, "{\"n\":%d}\n", i)
	}
	settled := make(chan struct{})
	if err := q.Append(t.Context(), &queue.Chunk{Source: "s", Received: time.Now(), Records: lines, Count: to - from + 1}, func() { close(settled) }); err != nil {
		t.Fatal(err)
	}
	<-settled
}

// Full dead letters; the destination is mended and all letters are redriven. The
// destination takes every record: nothing may count as dropped.
func TestRedriveOfFullDeadLettersDropsNothing(t *testing.T) {
	s := &pickySink{poison: upTo(2, 40)}
	d, q := realDelivery(t, 50, SinkConfig{Config: s}, 4000)
	start(t, d)
	await.Until(t, "full", func() bool { return d.snapshot().Reason == "DeadLettersFull" })
	s.set(func() { s.poison = nil })
	if _, err := d.letters.redrive(nil); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "all delivered", func() bool { return d.cursor.Account().Pending(50) == 0 && d.letters.stats().Redriving == 0 })
	a := q.Stats().Cursors["test"]
	if len(s.seqs()) < 50-1 || a.Dropped != 0 {
		t.Errorf("the destination took %d of 50 records, %d letters are left, and the ledger says %+v (purged: %d)", len(s.seqs()), d.letters.stats().Letters, a, d.metrics.droppedPurged.Load())
	}
}

// A dead letter store on a disk that hangs must not hold up the stop.
func TestHungLettersDoNotHoldUpTheStop(t *testing.T) {
	t.Parallel() // it takes closeTimeout
	cfg := &Config{
		Queue:    QueueConfig{Directory: t.TempDir(), MaxBytes: 1 << 30, WhenFull: Block},
		Shutdown: ShutdownConfig{DrainTimeout: config.Duration(100 * time.Millisecond)},
		Limits:   defaultLimits(),
		Sinks:    []SinkConfig{{Name: "a", Batch: sinks.DefaultBatch(), Retry: defaultRetry(), DeadLetters: defaultDeadLetters(), OnReject: DeadLetter, From: Oldest, Config: &pickySink{}}},
	}
	e, err := New(cfg, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	hung := make(chan struct{})
	t.Cleanup(func() {
		close(hung)
		l := e.letters("a")
		await.Until(t, "the delivery has ended, and makes no more files", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.closed
		})
	})
	in := make(chan struct{})
	go e.letters("a").with(func(*deadletter.Store) error { close(in); <-hung; return nil }) // fdatasync that does not return
	<-in
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	cancel()
	select {
	case <-done:
	case <-time.After(await.Left(t)):
		t.Error("the exporter does not stop")
	}
}

// A redriving letter that is damaged must not keep the books from being settled for ever.
func TestDamagedRedrivingLetter(t *testing.T) {
	s := &pickySink{poison: []uint64{2}}
	d, q := realDelivery(t, 3, SinkConfig{Config: s}, 0)
	start(t, d)
	await.Until(t, "set aside", func() bool { return q.Stats().Cursors["test"].DeadLettered == 1 })
	path := filepath.Join(d.letters.dir, "letters.log")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-3] ^= 1
	f, _ := os.OpenFile(path, os.O_WRONLY, 0)
	f.WriteAt(b, 0)
	f.Close()
	d.letters.redrive(nil)
	// Else every stop would wait for it until drainTimeout.
	await.Until(t, "a damaged letter that is not pending", func() bool { return q.Stats().Cursors["test"].Pending(3) == 0 })
}
