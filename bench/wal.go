package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/tidwall/wal"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/streamsource"
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

// walSidecarMain is a sidecar on tidwall/wal: docket's own source on a socket, its
// validation of each line, and behind them the group commit of walGroup in place of
// the queue. It has no sinks, and ends with ctx.
func walSidecarMain(ctx context.Context, args []string, _ io.Writer) error {
	if len(args) != 2 {
		return errors.New("want a socket and a directory")
	}
	log, err := wal.Open(args[1], nil)
	if err != nil {
		return err
	}
	in := &walIntake{group: newWALGroup(log)}
	cfg := streamsource.UnixDefinition.NewConfig().(*streamsource.UnixConfig)
	cfg.Path = args[0]
	source := cfg.New(sources.Env{
		Name: "bench", MaxRecordBytes: 1 << 20,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	err = source.Run(ctx, in, func() {})
	return errors.Join(err, in.group.close(), log.Close())
}

// walIntake is what stands between the source and the log. Every producer is new to
// it.
type walIntake struct{ group *walGroup }

// Open implements sources.Intake.
func (in *walIntake) Open(_ context.Context, o sources.Opening) (sources.Session, uint64, error) {
	if o.Producer == "" {
		return nil, 0, errNotMeasured
	}
	return &walSession{group: in.group, opening: o, last: o.Next - 1}, 0, nil
}

// walSession is one producer's way into the log.
type walSession struct {
	group   *walGroup
	opening sources.Opening
	last    uint64         // number of the last line submitted
	open    sync.WaitGroup // what was submitted and is not settled
}

// errNotMeasured is what this sidecar has for everything that bench does not do.
var errNotMeasured = errors.New("the sidecar on tidwall/wal takes valid records with numbers alone")

// Submit implements sources.Session.
func (s *walSession) Submit(ctx context.Context, lines []byte) error {
	count := 0
	for line := range bytes.Lines(lines) {
		if !validRecord(line) {
			return fmt.Errorf("%w, not %.40q", errNotMeasured, line)
		}
		count++
	}
	s.last += uint64(count)
	receipt := sources.Receipt{Through: s.last, Lines: count}
	s.open.Add(1)
	err := s.group.Append(ctx, &queue.Chunk{Records: lines, Count: count}, func() {
		s.opening.Settled(receipt)
		s.open.Done()
	})
	if err != nil {
		s.open.Done()
	}
	return err
}

// Settle implements sources.Session. The group settles everything, whatever happens.
func (s *walSession) Settle(context.Context) error {
	s.open.Wait()
	return nil
}

// SubmitTooLarge implements sources.Session.
func (s *walSession) SubmitTooLarge(context.Context, []byte, int64) error { return errNotMeasured }

// CountDuplicates implements sources.Session.
func (s *walSession) CountDuplicates(context.Context, int) error { return errNotMeasured }

// Close implements sources.Session.
func (s *walSession) Close() {}

// startWALSidecar starts such a sidecar in a process of its own, with its log below dir.
func (l *lab) startWALSidecar(dir string) (p *process.Process, socket string) {
	socket = filepath.Join(l.Short, "wal.sock")
	return process.Start(l.T, nil, l.Self, walSidecarCommand, socket, filepath.Join(dir, "wal")), socket
}
