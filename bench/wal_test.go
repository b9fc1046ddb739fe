package bench

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/tidwall/wal"

	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/streamsource"
)

// walGroup is a group commit on tidwall/wal as its documentation suggests: an entry for each record, and a
// batch for those that become durable together, which is everything that has arrived during the write
// of the batch before. The windows of producers bound what is pending.
type walGroup struct {
	log  *wal.Log
	work chan struct{} // holds a token when pending is not empty; closed at the end
	done sync.WaitGroup

	mu      sync.Mutex
	pending *walCommit // guarded by mu
	last    uint64     // the last index in pending; guarded by mu
}

type walCommit struct {
	batch   wal.Batch
	settled []func()
}

func newWALGroup(log *wal.Log) *walGroup {
	g := &walGroup{log: log, work: make(chan struct{}, 1), pending: &walCommit{}}
	g.done.Go(g.commitLoop)
	return g
}

func (g *walGroup) close() {
	close(g.work)
	g.done.Wait()
}

// Append is that of the queue.
func (g *walGroup) Append(_ context.Context, c *queue.Chunk, settled func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
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
	for range g.work {
		g.mu.Lock()
		c := g.pending
		g.pending = spare
		g.mu.Unlock()
		if err := g.log.WriteBatch(&c.batch); err != nil { // with the default options it ends in a sync
			panic(err)
		}
		for _, settled := range c.settled {
			settled()
		}
		c.settled = c.settled[:0]
		spare = c
	}
}

// walSidecar is a sidecar on tidwall/wal: docket's own source on a socket, its validation of each line, and
// behind them the group commit in place of the queue. It has no sinks.
type walSidecar struct{ Socket, Directory string }

func (o *walSidecar) run() (d done, err error) {
	log, err := wal.Open(o.Directory, nil)
	if err != nil {
		return d, err
	}
	cfg := streamsource.UnixDefinition.NewConfig().(*streamsource.UnixConfig)
	cfg.Path = o.Socket
	source := cfg.New(sources.Env{Name: "bench", MaxRecordBytes: 1 << 20, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	return d, source.Run(context.Background(), &walIntake{group: newWALGroup(log)}, func() {})
}

// walIntake is what stands between the source and the log. Every producer is new to it.
type walIntake struct{ group *walGroup }

// Open implements sources.Intake.
func (in *walIntake) Open(_ context.Context, o sources.Opening) (sources.Session, uint64, error) {
	return &walSession{group: in.group, opening: o, last: o.Next - 1}, 0, nil
}

// walSession is one producer's way into the log. What bench does not do ends the program.
type walSession struct {
	sources.Session
	group   *walGroup
	opening sources.Opening
	last    uint64         // number of the last line submitted
	open    sync.WaitGroup // what was submitted and is not settled
}

// Submit implements sources.Session.
func (s *walSession) Submit(ctx context.Context, lines []byte) error {
	count := 0
	for line := range bytes.Lines(lines) {
		if rawjson.KindOf(bytes.TrimSuffix(line, []byte("\n"))) != rawjson.Object {
			return fmt.Errorf("%.40q is no record", line)
		}
		count++
	}
	s.last += uint64(count)
	receipt := sources.Receipt{Through: s.last, Lines: count}
	s.open.Add(1)
	return s.group.Append(ctx, &queue.Chunk{Records: lines}, func() {
		s.opening.Settled(receipt)
		s.open.Done()
	})
}

// Settle implements sources.Session.
func (s *walSession) Settle(context.Context) error {
	s.open.Wait()
	return nil
}

// Close implements sources.Session.
func (s *walSession) Close() {}
