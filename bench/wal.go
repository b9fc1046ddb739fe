package main

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/tidwall/wal"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/exporter/queue"
)

// addWAL adds the rates of tidwall/wal: under the load of the queue, and alone in
// commits of the size in values. walfaults_test.go has the other reasons why the
// queue does not stand on it.
func (l *lab) addWAL(ctx context.Context, values map[string]float64) (err error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return err
	}
	defer remove()
	runtime.GC()
	dir = filepath.Join(dir, "wal")
	log, err := wal.Open(dir, nil)
	if err != nil {
		return err
	}
	g := newWALGroup(log)
	defer func() { err = errors.Join(err, g.close(), log.Close()) }()
	took, err := g.laps(ctx, dir, l.laps())
	if err != nil {
		return err
	}
	values["wal"] = float64(l.laps()*lapRecords) / took.Seconds()
	took, err = g.alone(ctx, l.records, max(1, int(values["perCommit"])))
	values["walAlone"] = float64(l.records) / took.Seconds()
	return err
}

// walGroup is a group commit on tidwall/wal as its documentation suggests: an
// entry for each record, and a batch for those that become durable together,
// which is everything that has arrived during the write of the batch before.
type walGroup struct {
	log  *wal.Log
	work chan struct{} // holds a token when pending is not empty
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	pending *walCommit // guarded by mu
	last    uint64     // the last index in pending; guarded by mu
	err     error      // of a write: nothing is taken any more; guarded by mu
}

type walCommit struct {
	batch   wal.Batch
	settled []func()
}

func newWALGroup(log *wal.Log) *walGroup {
	g := &walGroup{log: log, work: make(chan struct{}, 1), stop: make(chan struct{}), pending: &walCommit{}}
	g.done.Go(g.commitLoop)
	return g
}

// close returns the error of a write, if there was one.
func (g *walGroup) close() error {
	close(g.stop)
	g.done.Wait()
	return g.err
}

// Append is that of the queue. The producers' windows bound what is pending.
func (g *walGroup) Append(_ context.Context, c *queue.Chunk, settled func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return g.err
	}
	for line := range bytes.Lines(c.Records) {
		g.last++
		g.pending.batch.Write(g.last, line)
	}
	g.pending.settled = append(g.pending.settled, settled)
	select {
	case g.work <- struct{}{}:
	default:
	}
	return nil
}

func (g *walGroup) commitLoop() {
	spare := &walCommit{}
	for {
		select {
		case <-g.work:
		case <-g.stop:
			return
		}
		g.mu.Lock()
		c := g.pending
		g.pending = spare
		g.mu.Unlock()
		err := g.log.WriteBatch(&c.batch) // with the default options it ends in a sync
		if err != nil {
			g.mu.Lock()
			g.err = err
			g.mu.Unlock()
		}
		for _, settled := range c.settled { // after an error too: the next Append tells it
			settled()
		}
		clear(c.settled)
		c.settled = c.settled[:0]
		spare = c
	}
}

// laps loads the log as a track loads its queue, with the same rests for the disk.
func (g *walGroup) laps(ctx context.Context, dir string, count int) (took time.Duration, err error) {
	feeders := newFeeders()
	for lap := range warmLaps + count {
		if err := settle(ctx, dir); err != nil {
			return 0, err
		}
		d, err := feedAll(ctx, g, feeders, lapRecords)
		if err != nil {
			return 0, err
		}
		if lap >= warmLaps {
			took += d
		}
	}
	return took, nil
}

// alone writes the same from one goroutine that never waits for a producer.
func (g *walGroup) alone(ctx context.Context, records, perCommit int) (took time.Duration, err error) {
	b := record.NewBlock(0)
	var batch wal.Batch
	began := time.Now()
	for sent := 0; sent < records; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		for end := min(records, sent+perCommit); sent < end; {
			lines := b.Next(sent, end-sent)
			sent += len(lines) / record.Bytes
			for at := 0; at < len(lines); at += record.Bytes {
				g.last++
				batch.Write(g.last, lines[at:at+record.Bytes])
			}
		}
		if err := g.log.WriteBatch(&batch); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}
