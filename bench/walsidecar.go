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
	"sync"

	"github.com/tidwall/wal"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/streamsource"
)

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

// walSidecar is such a sidecar in a process of its own.
type walSidecar struct {
	*process.Process
	lab    *lab
	socket string
}

// startWALSidecar starts one with its log below dir.
func (l *lab) startWALSidecar(dir string) *walSidecar {
	s := &walSidecar{lab: l, socket: filepath.Join(l.Short, "wal.sock")}
	s.Process = process.Start(l.T, nil, l.Self, walSidecarCommand, s.socket, filepath.Join(dir, "wal"))
	return s
}

// load runs the load, whose socket is that of the sidecar.
func (s *walSidecar) load(o load.Load) stint {
	o.Socket = s.socket
	var d load.Done
	cpu := s.CPUOf(func() { d = s.lab.produce(o) })
	return stint{Records: d.Records, Took: d.Took(), CPU: cpu}
}
