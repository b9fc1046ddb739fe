package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/wal"

	"github.com/docket-export/docket/exporter/queue"
)

// BenchmarkQueue is the queue in this process: eight goroutines append chunks of 64 records, each with 1,024
// records in flight. No socket, no validation. A cursor takes the records between laps. tidwall/wal has
// the same load behind a plain group commit.
func BenchmarkQueue(b *testing.B) {
	commit := 1500.0
	b.Run("program=docket", func(b *testing.B) {
		t := openTrack(b, filepath.Join(scratch(b), "queue"))
		t.lap()
		var sum stint
		for b.Loop() {
			lap, _ := t.lap()
			sum.add(lap)
		}
		sum.report(b)
		commit = sum.perPart()
	})
	b.Run("program=plain", func(b *testing.B) { plainAppend(b, lapRecords, commit) })
	b.Run("program=tidwall", func(b *testing.B) {
		dir := filepath.Join(scratch(b), "wal")
		log := must(wal.Open(dir, nil))(b)
		g := newWALGroup(log)
		b.Cleanup(func() { g.close(); check(b, log.Close()) })
		feeders := newFeeders()
		var sum stint
		for b.Loop() {
			settle(b, dir)
			sum.add(feedAll(b, g, feeders, lapRecords))
		}
		sum.report(b)
	})
}

// BenchmarkBacklog is the queue that keeps 1 MB, and one that keeps 5 GB: what it costs to append, and to
// read what was appended.
func BenchmarkBacklog(b *testing.B) {
	sizes(b, "1MB", 1<<10, func(b *testing.B, records int) {
		t := openTrack(b, filepath.Join(scratch(b), "queue"))
		must(t.Cursor("held", false))(b).Close() // it lets nothing go
		feedAll(b, t, t.feeders, records)
		t.take()
		var sum, read stint
		for b.Loop() {
			lap, taken := t.lap()
			sum.add(lap)
			read.add(taken)
		}
		sum.report(b)
		b.ReportMetric(float64(read.records)/read.took.Seconds(), "records-read/s")
	})
}

// track is a queue with producers that load it lap after lap, and a cursor.
type track struct {
	*queue.Queue
	b       *testing.B
	dir     string
	cursor  *queue.Cursor
	feeders []*feeder
	commits atomic.Int64
}

func openTrack(b *testing.B, dir string) *track {
	b.Helper()
	runtime.GC() // what an earlier program has left must not be collected in this one's time
	t := &track{b: b, dir: dir, feeders: newFeeders()}
	t.Queue = must(queue.Open(queue.Options{Directory: dir, Committed: func(int, time.Duration) { t.commits.Add(1) }}))(b)
	b.Cleanup(func() { check(b, t.Close(context.Background())) })
	t.cursor = must(t.Cursor("cursor", true))(b)
	b.Cleanup(t.cursor.Close)
	return t
}

// lap appends, and then takes the records.
func (t *track) lap() (appended, taken stint) {
	settle(t.b, t.dir)
	before := t.commits.Load()
	appended = feedAll(t.b, t, t.feeders, lapRecords)
	appended.parts = float64(t.commits.Load() - before)
	began := time.Now()
	t.take()
	return appended, stint{records: lapRecords, took: time.Since(began)}
}

// take reads and acknowledges every record, in batches as sinks take them.
func (t *track) take() {
	for next := t.cursor.Account().Next; next <= t.LastSeq(); {
		batch := must(t.cursor.Next(t.b.Context(), queue.Limits{Records: 1 << 10, Bytes: 1 << 20}))(t.b)
		next = batch[len(batch)-1].Seq + 1
		check(t.b, t.cursor.Ack(next-1))
	}
}

// appender is the queue, or what stands in its place.
type appender interface {
	Append(ctx context.Context, c *queue.Chunk, settled func()) error
}

// feedAll appends records, the same share from each feeder, and returns when all are durable.
func feedAll(b *testing.B, to appender, feeders []*feeder, records int) stint {
	b.Helper()
	errs := make([]error, len(feeders))
	var running sync.WaitGroup
	began := time.Now()
	for i, f := range feeders {
		running.Go(func() { errs[i] = f.feed(b.Context(), to, records/len(feeders)) })
	}
	running.Wait()
	check(b, errors.Join(errs...))
	return stint{records: records, took: time.Since(began)}
}

// feeder appends the records of one producer.
type feeder struct {
	name  string
	block block
	sent  uint64
	room  chan struct{} // a token for each chunk under way
}

func newFeeders() (all []*feeder) {
	for i := range producers {
		// A chunk is what one read of the stream source brings in.
		all = append(all, &feeder{name: fmt.Sprint("bench-", i), block: newBlock(i), room: make(chan struct{}, window/linesPerWrite)})
	}
	return all
}

func (f *feeder) feed(ctx context.Context, to appender, records int) error {
	for until := f.sent + uint64(records); f.sent < until; {
		lines := f.block.next(int(f.sent), int(min(linesPerWrite, until-f.sent)))
		n := len(lines) / recordBytes
		f.sent += uint64(n)
		f.room <- struct{}{}
		c := queue.Chunk{Source: "bench", Producer: f.name, Position: f.sent, Received: time.Now(), Records: lines, Count: n}
		if err := to.Append(ctx, &c, func() { <-f.room }); err != nil {
			return err
		}
	}
	for range cap(f.room) { // all tokens back: all is durable
		f.room <- struct{}{}
	}
	for range cap(f.room) {
		<-f.room
	}
	return nil
}
