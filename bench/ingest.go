package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
)

// ingest measures docket in its steady state, and what there is to compare with, lap
// by lap in turn.
func (l *lab) ingest(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	docket, err := l.startSteady(ctx, filepath.Join(dir, "docket"), setup{}, 1)
	if err != nil {
		return nil, err
	}
	defer docket.end()
	unsynced, err := l.startSteady(ctx, filepath.Join(dir, "unsynced"), setup{program: l.unsynced, socket: "unsynced"}, 1)
	if err != nil {
		return nil, fmt.Errorf("without sync: %w", err)
	}
	defer unsynced.end()
	others, err := l.startOthers(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer others.end()
	checked := newCheck()
	var synced, notSynced stint
	for range l.steadyLaps() {
		lap, err := docket.lap(ctx, steadyLoad, false)
		if err != nil {
			return nil, errors.Join(err, docket.LastWords())
		}
		synced.add(lap)
		if err := checked.run(ctx, checkedOfLap); err != nil {
			return nil, err
		}
		if err := others.lap(ctx, lap.perCommit()); err != nil {
			return nil, err
		}
		if lap, err = unsynced.lap(ctx, steadyLoad, false); err != nil {
			return nil, errors.Join(err, unsynced.LastWords())
		}
		notSynced.add(lap)
	}
	memory, err := docket.Memory("VmHWM")
	if err != nil {
		return nil, err
	}
	values := map[string]float64{
		"rate": synced.rate(), "perCommit": synced.perCommit(), "cpu": synced.cpuOfMillion(), "memory": memory,
		"validation": checked.cpuOfMillion(), "rest": synced.cpuOfMillion() - checked.cpuOfMillion(),
		"unsynced": notSynced.rate(), "unsyncedCPU": notSynced.cpuOfMillion(),
	}
	others.add(values)
	raw, err := l.raw(ctx, synced.perCommit(), l.records)
	values["appended"] = raw.appended
	return values, err
}

// checkedOfLap is how many records are validated for each lap of docket: enough for
// some tens of milliseconds.
const checkedOfLap = lapRecords

// steadyLoad is one lap of the load that durable ingest is measured with.
var steadyLoad = load{Producers: producers, Window: linesInFlight, Records: steadyLap}

// others are what docket is compared with: the plain program on a recycled file, the
// sidecar on tidwall/wal, and the server that only acknowledges.
type others struct {
	l   *lab
	dir string

	raw              overwriter
	wal              *process.Process
	walSocket        string
	rawDone, walDone stint
	echoDone         produced
}

// startOthers starts them in dir, and warms them up.
func (l *lab) startOthers(ctx context.Context, dir string) (*others, error) {
	f, err := recycledFile(ctx, filepath.Join(dir, "raw"))
	if err != nil {
		return nil, err
	}
	o := &others{l: l, dir: dir, raw: overwriter{file: f, span: segmentBytes}}
	if o.wal, o.walSocket, err = l.startWALSidecar(ctx, dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	for range steadyWarmLaps {
		if _, err := o.lapOfWAL(ctx); err != nil {
			o.end()
			return nil, err
		}
	}
	return o, nil
}

func (o *others) end() {
	o.wal.Kill()
	_ = o.raw.file.Close() // nothing that matters is in it
}

// lap lets each of them have the load once. The plain program writes commits of
// perCommit records.
func (o *others) lap(ctx context.Context, perCommit float64) error {
	if err := site.Rest(o.dir); err != nil {
		return err
	}
	o.raw.commit, o.raw.written = commitOf(perCommit), 0
	took, err := o.raw.run(ctx, steadyLap*record.Bytes)
	if err != nil {
		return err
	}
	o.rawDone.add(stint{records: o.raw.written / record.Bytes, took: took})
	lap, err := o.lapOfWAL(ctx)
	if err != nil {
		return err
	}
	o.walDone.add(lap)
	return o.lapOfEcho(ctx)
}

func (o *others) lapOfWAL(ctx context.Context) (lap stint, err error) {
	if err := site.Rest(o.dir); err != nil {
		return lap, err
	}
	before, err := o.wal.CPUTime()
	if err != nil {
		return lap, err
	}
	load := steadyLoad
	load.Socket = o.walSocket
	p, err := o.l.produce(ctx, load)
	if err != nil {
		return lap, errors.Join(fmt.Errorf("sidecar on tidwall/wal: %w", err), o.wal.LastWords())
	}
	after, err := o.wal.CPUTime()
	return stint{records: p.Records, took: p.took(), cpu: after - before}, err
}

// lapOfEcho starts a server for it, which ends with its producers.
func (o *others) lapOfEcho(ctx context.Context) error {
	load := steadyLoad
	load.Socket = filepath.Join(o.l.Short, "echo.sock")
	server, err := process.Start(ctx, nil, o.l.Self, answerCommand, load.Socket, strconv.Itoa(load.Producers))
	if err != nil {
		return err
	}
	defer server.Kill()
	return o.l.addLoad(ctx, &o.echoDone, load)
}

// add adds what they have come to.
func (o *others) add(values map[string]float64) {
	values["recycled"] = o.rawDone.rate()
	values["wal"], values["walCPU"] = o.walDone.rate(), o.walDone.cpuOfMillion()
	values["echo"] = o.echoDone.rate()
}
