package exporter

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/sinks"
)

// acceptingSink takes everything and does nothing with it.
type acceptingSink struct {
	sinks.Config
	left int
	done chan struct{}
}

func (s *acceptingSink) Open(context.Context, sinks.Env) (sinks.Sink, error) { return s, nil }
func (s *acceptingSink) Close(context.Context) error                         { return nil }

func (s *acceptingSink) Send(_ context.Context, b sinks.Batch) error {
	if s.left -= len(b.Items); s.left == 0 {
		close(s.done)
	}
	return nil
}

// BenchmarkDeliver delivers a backlog of 1 KB records to a sink that accepts
// everything.
func BenchmarkDeliver(b *testing.B) {
	const records, chunk = 100_000, 64
	q, err := queue.Open(queue.Options{Directory: b.TempDir(), MaxBytes: 1 << 30, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close(context.Background())
	if _, err := q.Cursor("behind", false); err != nil { // keeps the backlog for every round
		b.Fatal(err)
	}
	line := `{"eventType":"violation","pad":"` + strings.Repeat("x", 990) + "\"}\n"
	lines := bytes.Repeat([]byte(line), chunk)
	settled := make(chan struct{}, records)
	for range records / chunk {
		c := queue.Chunk{Source: "bench", Received: time.Now(), Records: lines, Count: chunk}
		if err := q.Append(b.Context(), &c, func() { settled <- struct{}{} }); err != nil {
			b.Fatal(err)
		}
	}
	for range records / chunk {
		<-settled
	}
	n := records / chunk * chunk
	b.SetBytes(int64(n * len(line)))
	for i := 0; b.Loop(); i++ {
		name := "sink-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		c, err := q.Cursor(name, false)
		if err != nil {
			b.Fatal(err)
		}
		sink := &acceptingSink{left: n, done: make(chan struct{})}
		batch := sinks.DefaultBatch()
		batch.MaxWait = 0 // the last one of a backlog is not full
		cfg := SinkConfig{Name: name, Batch: batch, Retry: RetryConfig{InitialBackoff: config.Duration(time.Second), MaxBackoff: config.Duration(time.Minute)}, OnReject: DeadLetter, DeadLetters: defaultDeadLetters(), Config: sink}
		facts := queueFacts{id: q.ID(), directory: b.TempDir(), lost: func() []segment.SeqRange { return nil }, stored: q.LastSeq}
		d, err := newDelivery(cfg, facts, c, newMetrics("bench").delivery(name), slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); d.run(ctx) }()
		<-sink.done
		cancel()
		<-ended
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
