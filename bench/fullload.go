package main

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/host"
)

// fullLoad measures docket while everything that it can do is under way: producers
// write as fast as they can, and a file, an HTTP and a Kafka sink read a backlog of
// 5 GB.
func (l *lab) fullLoad(ctx context.Context) (map[string]float64, error) {
	dir, err := l.largeDir(ctx)
	if err != nil {
		return nil, err
	}
	scratch, remove, err := l.scratch() // of the export
	if err != nil {
		return nil, err
	}
	defer remove()
	receiver, err := l.startOpen(ctx, receiveCommand)
	if err != nil {
		return nil, err
	}
	defer receiver.Kill()
	broker, err := l.startOpen(ctx, brokerCommand)
	if err != nil {
		return nil, err
	}
	defer broker.Kill()
	// The names are new to the queue in every round, so that it gives each sink all
	// of the backlog.
	round := filepath.Base(scratch)
	file, http, kafka := "file-"+round, "http-"+round, "kafka-"+round
	s, err := l.startSetup(ctx, dir, setup{queue: ", maxBytes: 64Gi", sinks: []string{
		fileEntry(file, filepath.Join(scratch, "export"), "none"), httpEntry(http, receiver.Address, 1), kafkaEntry(kafka, broker.Address),
	}})
	if err != nil {
		return nil, err
	}
	defer s.kill()
	values, err := s.underLoad(ctx, l, map[string]string{"file": file, "http": http, "kafka": kafka})
	if err != nil {
		return nil, errors.Join(err, s.LastWords())
	}
	return values, nil
}

// startOpen starts a destination that takes whatever comes.
func (l *lab) startOpen(ctx context.Context, command string) (*destination, error) {
	d, err := l.startDestination(ctx, command)
	if err != nil {
		return nil, err
	}
	if err := d.open(1 << 40); err != nil {
		d.Kill()
		return nil, err
	}
	return d, nil
}

// loadFactor is how many times as many records the producers write as in other
// measurements: for some seconds.
const loadFactor = 3

// underLoad loads docket when all sinks are at work. sinks are their names by key.
func (s *sidecar) underLoad(ctx context.Context, l *lab, sinks map[string]string) (map[string]float64, error) {
	var before map[string]account
	err := host.Poll(ctx, deliveredPause, func() (all bool, err error) {
		before, err = s.accounts(ctx)
		for _, name := range sinks {
			if before[name].Delivered == 0 {
				return false, err
			}
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	cpu, err := s.CPUTime()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	p, err := l.produce(ctx, load{s.socket, producers, linesInFlight, loadFactor * l.records})
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	cpuAfter, err := s.CPUTime()
	if err != nil {
		return nil, err
	}
	after, err := s.accounts(ctx)
	if err != nil {
		return nil, err
	}
	values, moved, left := map[string]float64{"rate": p.rate()}, p.Records, math.MaxInt
	for key, name := range sinks {
		delivered := after[name].Delivered - before[name].Delivered
		moved += delivered
		values[key] = float64(delivered) / took.Seconds()
		left = min(left, after[name].Pending-p.Records)
	}
	values["left"] = float64(max(left, 0))
	values["cpu"] = (cpuAfter - cpu).Seconds() / float64(moved) * 1e6
	values["memory"], err = s.Memory("VmHWM")
	return values, err
}
