package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/exporter/queue"
)

// queueRates measures the queue in its three lives: what it holds was taken
// before, is taken meanwhile, or stays; and what there is to compare with.
func (l *lab) queueRates() values {
	var alone, taken, growing stint
	l.part(func(l *lab) {
		t := openTrack(l.T, filepath.Join(l.scratch(), "queue"), true)
		for range warmLaps {
			t.lap(lapRecords, false)
		}
		for range l.laps(lapRecords) {
			alone.add(t.lap(lapRecords, false))
		}
		taken = t.lap(2*l.records/load.Producers*load.Producers, true)
	})
	l.part(func(l *lab) {
		t := openTrack(l.T, filepath.Join(l.scratch(), "queue"), false)
		t.lap(lapRecords, false)
		growing = t.lap(2*l.records, false)
	})
	v := values{"rate": alone.rate(), "perCommit": alone.perPart(), "taken": taken.rate(), "growing": growing.rate()}
	v["appended"], v["recycled"] = l.raw(alone.perPart(), l.records)
	l.part(func(l *lab) { v["wal"] = l.wal().rate() })
	return v
}

const (
	// smallRecords are the backlog to compare with.
	smallRecords = (1 << 20) / record.Bytes
	// flatLaps keep the large backlog from growing much from round to round.
	flatLaps = 5
)

// flatness appends to, and reads from the end of, a queue with a small backlog and
// one with a large, lap by lap in turn. Both keep all of it.
func (l *lab) flatness() values {
	smallDir := filepath.Join(l.scratch(), "queue")
	l.fill(backlogFill{Directory: smallDir, Records: smallRecords})
	small := openTrack(l.T, smallDir, true)
	large := openTrack(l.T, filepath.Join(l.largeDir(), "queue"), true)
	sums := stints{}
	for lap := range 1 + flatLaps {
		for key, t := range map[string]*track{"small": small, "large": large} {
			settle(l.T, t.dir)
			appended := t.feed(lapRecords)
			began := time.Now()
			trial.Check(takeAll(l.Context(), t.cursor, t.q.LastSeq()))
			if lap > 0 { // the first warms up
				sums.add(key, appended)
				sums.add(key+"Read", stint{Records: lapRecords, Took: time.Since(began)})
			}
		}
	}
	v := values{}
	for key, sum := range sums {
		v[key] = sum.rate()
	}
	return v
}

// track is a queue in this process, with producers that load it lap after lap.
// A lap is short so that it can find the queue as a steady load would, with what
// it has delivered before recycled, though nobody reads during the lap.
type track struct {
	t       *trial.T
	dir     string
	q       *queue.Queue
	cursor  *queue.Cursor // nil: none
	feeders []*feeder
	commits atomic.Int64
}

// openTrack opens a queue in dir until the measurement ends, with a cursor that starts
// after its last record or without one.
func openTrack(t *trial.T, dir string, cursor bool) *track {
	runtime.GC() // what an earlier program has left must not be collected in this one's time
	track := &track{t: t, dir: dir, feeders: newFeeders()}
	track.q = trial.Must(queue.Open(queue.Options{
		Directory: dir,
		Committed: func(int, time.Duration) { track.commits.Add(1) },
	}))
	t.Cleanup(func() error { return track.q.Close(context.WithoutCancel(t.Context())) })
	if cursor {
		track.cursor = trial.Must(track.q.Cursor("cursor", true))
		t.Cleanup(func() error { track.cursor.Close(); return nil })
	}
	return track
}

// lap waits until the queue has nothing left to do, and appends. The cursor follows, or
// takes the records after the clock has stopped.
func (t *track) lap(records int, follow bool) stint {
	settle(t.t, t.dir)
	last := t.q.LastSeq() + uint64(records)
	ctx, cancel := context.WithCancel(t.t.Context())
	defer cancel()
	taken := make(chan error, 1)
	take := func() {
		if t.cursor == nil {
			taken <- nil
			return
		}
		taken <- takeAll(ctx, t.cursor, last)
	}
	if follow {
		go take()
	}
	lap := t.feed(records)
	if !follow {
		go take()
	}
	trial.Check(<-taken)
	return lap
}

// feed appends from all feeders and returns when everything is durable.
func (t *track) feed(records int) stint {
	before := t.commits.Load()
	took := trial.Must(feedAll(t.t.Context(), t.q, t.feeders, records))
	return stint{Records: records, Parts: float64(t.commits.Load() - before), Took: took}
}

// settle waits until a queue has nothing to do: what was delivered is let go or
// recycled, what comes next is prepared. Its directory shows that.
func settle(t *trial.T, dir string) {
	// More than the queue waits from one round of tidying to the next.
	const quiet = 250 * time.Millisecond
	before := ""
	t.Poll("for the queue to have nothing to do", quiet, readyWait, func() bool {
		now := trial.Must(look(dir))
		same := now == before
		before = now
		return same
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
	all := make([]*feeder, load.Producers)
	for i := range all {
		// A chunk is what one read of the stream source brings in.
		f := &feeder{name: fmt.Sprint("bench-", i), block: record.NewBlock(i), room: make(chan struct{}, load.Window/load.LinesPerWrite)}
		f.settled = func() { <-f.room }
		all[i] = f
	}
	return all
}

// feed returns when all records are durable.
func (f *feeder) feed(ctx context.Context, to appender, records int) error {
	for until := f.sent + uint64(records); f.sent < until; {
		lines := f.block.Next(int(f.sent), int(min(load.LinesPerWrite, until-f.sent)))
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
