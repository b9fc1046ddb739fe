package main

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/tidwall/wal"

	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/exporter/queue"
)

// wal measures tidwall/wal under the load of the queue, with the same rests for the
// disk. walfaults_test.go has the other reasons why the queue does not stand on it.
func (l *lab) wal() stint {
	runtime.GC() // what an earlier program has left must not be collected in this one's time
	dir := filepath.Join(l.scratch(), "wal")
	log := trial.Must(wal.Open(dir, nil))
	g := newWALGroup(log)
	l.Cleanup(func() error { return errors.Join(g.close(), log.Close()) })
	feeders := newFeeders()
	var sum stint
	for lap := range warmLaps + l.laps(lapRecords) {
		settle(l.T, dir)
		took := trial.Must(feedAll(l.Context(), g, feeders, lapRecords))
		if lap >= warmLaps {
			sum.add(stint{Records: lapRecords, Took: took})
		}
	}
	return sum
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
