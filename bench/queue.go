package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/exporter/queue"
)

// recordsPerChunk is what one read of the stream source brings in when producers
// write linesPerWrite lines at a time.
const recordsPerChunk = linesPerWrite

// lapRecords is a little less than a segment of the default size holds: nearly
// every lap goes on to the next segment once, as often as a load without end.
const lapRecords = 60 << 10

// track is a queue in this process, with producers that load it lap after lap.
// A lap is short so that it can find the queue as a steady load would, with what
// it has delivered before recycled, though nobody reads during the lap.
type track struct {
	dir     string
	q       *queue.Queue
	cursors []*queue.Cursor
	feeders []*feeder
	commits atomic.Int64
}

// openTrack opens a queue in dir with a number of cursors that start after its
// last record.
func openTrack(dir string, cursors int) (*track, error) {
	runtime.GC() // what an earlier program has left must not be collected in this one's time
	t := &track{dir: dir, feeders: newFeeders()}
	q, err := queue.Open(queue.Options{
		Directory: dir,
		Committed: func(int, time.Duration) { t.commits.Add(1) },
	})
	if err != nil {
		return nil, err
	}
	t.q = q
	for i := range cursors {
		c, err := q.Cursor(fmt.Sprint("cursor-", i), true)
		if err != nil {
			return nil, errors.Join(err, q.Close(context.Background()))
		}
		t.cursors = append(t.cursors, c)
	}
	return t, nil
}

func (t *track) close(ctx context.Context) error {
	for _, c := range t.cursors {
		c.Close()
	}
	return t.q.Close(ctx)
}

// pace is what some laps have come to.
type pace struct {
	records int
	commits int64
	took    time.Duration
}

func (p pace) rate() float64      { return float64(p.records) / p.took.Seconds() }
func (p pace) perCommit() float64 { return float64(p.records) / float64(p.commits) }

// lap waits until the queue has nothing left to do, and appends. Of its cursors,
// following take the records meanwhile; the others do after the clock has stopped.
func (t *track) lap(ctx context.Context, records, following int) (pace, error) {
	if err := settle(ctx, t.dir); err != nil {
		return pace{}, err
	}
	last := t.q.LastSeq() + uint64(records)
	var reading sync.WaitGroup
	errs := make([]error, len(t.cursors))
	read := func(from, to int) {
		for i := from; i < to; i++ {
			reading.Go(func() { errs[i] = takeAll(ctx, t.cursors[i], last) })
		}
	}
	read(0, following)
	p, err := t.feed(ctx, records)
	if err != nil {
		return p, errors.Join(err, t.q.Close(ctx)) // which ends the readers
	}
	reading.Wait()
	read(following, len(t.cursors))
	reading.Wait()
	return p, errors.Join(errs...)
}

// laps is lap, count times; the cursors take the records afterwards.
func (t *track) laps(ctx context.Context, count int) (total pace, err error) {
	for range count {
		p, err := t.lap(ctx, lapRecords, 0)
		if err != nil {
			return total, err
		}
		total.add(p)
	}
	return total, nil
}

func (p *pace) add(lap pace) {
	p.records += lap.records
	p.commits += lap.commits
	p.took += lap.took
}

// feed appends from all feeders and returns when everything is durable.
func (t *track) feed(ctx context.Context, records int) (pace, error) {
	before := t.commits.Load()
	took, err := feedAll(ctx, t.q, t.feeders, records)
	return pace{records, t.commits.Load() - before, took}, err
}

// settle waits until a queue has nothing to do: what was delivered is let go or
// recycled, what comes next is prepared. Its directory shows that.
func settle(ctx context.Context, dir string) error {
	// More than the queue waits from one round of tidying to the next.
	const quiet = 250 * time.Millisecond
	before := ""
	return host.Poll(ctx, quiet, func() (bool, error) {
		now, err := look(dir)
		same := now == before
		before = now
		return same, err
	})
}

// look returns a text that differs when a file in dir was made, renamed, removed
// or written.
func look(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // it has just gone: the next look will differ
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&b, e.Name(), info.Size(), info.ModTime().UnixNano())
	}
	return b.String(), nil
}

// batchLimits is a batch as sinks take them.
var batchLimits = queue.Limits{Records: 1 << 10, Bytes: 1 << 20}

// takeAll reads and acknowledges every record up to last.
func takeAll(ctx context.Context, c *queue.Cursor, last uint64) error {
	for next := c.Account().Next; next <= last; {
		batch, err := c.Next(ctx, batchLimits)
		if err != nil {
			return err
		}
		next = batch[len(batch)-1].Seq + 1
		if err := c.Ack(next - 1); err != nil {
			return err
		}
	}
	return nil
}

// appender is the queue, or what stands in its place.
type appender interface {
	Append(ctx context.Context, c *queue.Chunk, settled func()) error
}

// feedAll appends records, the same share from each feeder, and returns how long it
// took until all were durable.
func feedAll(ctx context.Context, to appender, feeders []*feeder, records int) (time.Duration, error) {
	errs := make([]error, len(feeders))
	var running sync.WaitGroup
	began := time.Now()
	for i, f := range feeders {
		running.Go(func() { errs[i] = f.feed(ctx, to, records/len(feeders)) })
	}
	running.Wait()
	return time.Since(began), errors.Join(errs...)
}

// feeder appends the records of one producer.
type feeder struct {
	name    string
	block   *record.Block
	sent    uint64
	room    chan struct{} // a token for each chunk under way
	settled func()
}

func newFeeders() []*feeder {
	all := make([]*feeder, producers)
	for i := range all {
		all[i] = newFeeder(i)
	}
	return all
}

func newFeeder(number int) *feeder {
	f := &feeder{
		name: fmt.Sprint("bench-", number), block: record.NewBlock(number),
		room: make(chan struct{}, linesInFlight/recordsPerChunk),
	}
	f.settled = func() { <-f.room }
	return f
}

// feed returns when all records are durable.
func (f *feeder) feed(ctx context.Context, to appender, records int) error {
	for until := f.sent + uint64(records); f.sent < until; {
		lines := f.block.Next(int(f.sent), int(min(recordsPerChunk, until-f.sent)))
		f.sent += uint64(len(lines) / record.Bytes)
		select {
		case f.room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		c := queue.Chunk{
			Source: "bench", Producer: f.name, Position: f.sent,
			Received: time.Now(), Records: lines, Count: len(lines) / record.Bytes,
		}
		if err := to.Append(ctx, &c, f.settled); err != nil {
			return err
		}
	}
	for range cap(f.room) { // all tokens back: all is settled
		select {
		case f.room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for range cap(f.room) {
		<-f.room
	}
	return nil
}
