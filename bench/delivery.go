package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/process"
)

// deliveryTurns is how often docket and the plain programs take turns in one
// measurement.
const deliveryTurns = 3

// passage is what the delivery of a backlog to a destination has come to, by docket
// or by a plain program.
type passage struct {
	tally
	sender float64 // processor time of the sender, in seconds
}

func (p passage) senderOfMillion() float64 { return p.sender / float64(p.Records) * 1e6 }

// passages are sums of those of all turns.
type passages map[string]passage

func (all passages) add(key string, p passage) {
	sum := all[key]
	sum.Records += p.Records
	sum.Requests += p.Requests
	sum.First += p.First
	sum.Seconds += p.Seconds
	sum.CPU += p.CPU
	sum.sender += p.sender
	all[key] = sum
}

// backlogAge is more than the batch.maxWait of any sink. A batch that is not full
// waits until its first record is as old, and the last batch of a backlog is not.
const backlogAge = 1100 * time.Millisecond

// backlogOf makes a directory for a sidecar with a backlog that has an age, of at
// most so many records. Each sink that is new to it gets all of them.
func (l *lab) backlogOf(ctx context.Context, atMost int) (dir string, records int, remove func(), err error) {
	dir, remove, err = l.scratch()
	if err != nil {
		return "", 0, nil, err
	}
	records = atMost / producers * producers
	if err := fillQueue(ctx, filepath.Join(dir, "queue"), records); err != nil {
		remove()
		return "", 0, nil, err
	}
	if err := host.Sleep(ctx, backlogAge); err != nil {
		remove()
		return "", 0, nil, err
	}
	return dir, records, remove, nil
}

// deliver has docket, which is ready, bring the backlog to d through the sink.
func (s *sidecar) deliver(ctx context.Context, sink string, d *destination, records int) (p passage, err error) {
	defer s.profile(ctx)()
	before, err := s.CPUTime()
	if err != nil {
		return p, err
	}
	if err := d.open(records); err != nil {
		return p, err
	}
	if p.tally, err = d.wait(); err != nil {
		return p, errors.Join(err, ctx.Err(), s.LastWords())
	}
	after, err := s.CPUTime()
	if err != nil {
		return p, err
	}
	p.sender = (after - before).Seconds()
	return p, s.waitDelivered(ctx, sink, records) // the last answer may still be on its way
}

// deliveredPause is how often docket is asked how far it is: a question costs it a
// fraction of a millisecond.
const deliveredPause = 5 * time.Millisecond

// waitDelivered waits until docket says that the sink has taken so many records.
func (s *sidecar) waitDelivered(ctx context.Context, sink string, records int) error {
	return host.Poll(ctx, deliveredPause, func() (bool, error) {
		n, err := s.delivered(ctx, sink)
		return n >= records, err
	})
}

// plain has a plain program, which runs command, bring so many records to d.
func (l *lab) plain(ctx context.Context, d *destination, records int, command string, loop any) (p passage, err error) {
	if err := d.open(records); err != nil {
		return p, err
	}
	var sent produced
	if err := process.Call(ctx, l.Self, command, loop, &sent); err != nil {
		return p, err
	}
	p.sender = sent.CPU
	p.tally, err = d.wait()
	return p, err
}

// manyInFlight is a usual maxInFlight for a receiver that is far away.
const manyInFlight = 4

// http measures docket and the plain program with one request at a time, and with
// several.
func (l *lab) http(ctx context.Context) (map[string]float64, error) {
	dir, records, remove, err := l.backlogOf(ctx, l.records)
	if err != nil {
		return nil, err
	}
	defer remove()
	sums := passages{}
	for turn := range deliveryTurns {
		for _, kind := range []struct {
			docket, plain string
			inFlight      int
		}{{"one", "plain", 1}, {"many", "plainMany", manyInFlight}} {
			p, err := l.overHTTP(ctx, dir, fmt.Sprint(kind.docket, "-", turn), kind.inFlight, records)
			if err != nil {
				return nil, err
			}
			sums.add(kind.docket, p)
			if p, err = l.plainHTTP(ctx, kind.inFlight, p.tally); err != nil {
				return nil, err
			}
			sums.add(kind.plain, p)
		}
	}
	one, plain := sums["one"], sums["plain"]
	return map[string]float64{
		"rate": one.rate(), "perRequest": one.perRequest(), "cpu": one.senderOfMillion(), "receiver": one.cpuOfMillion(),
		"plain": plain.rate(), "plainCPU": plain.senderOfMillion(),
		"many": sums["many"].rate(), "plainMany": sums["plainMany"].rate(),
	}, nil
}

// overHTTP delivers the backlog in dir to a receiver. The sink has a name that the
// queue does not know yet.
func (l *lab) overHTTP(ctx context.Context, dir, name string, inFlight, records int) (p passage, err error) {
	d, err := l.startDestination(ctx, receiveCommand)
	if err != nil {
		return p, err
	}
	defer d.Kill()
	s, err := l.startWith(ctx, dir, httpEntry(name, d.Address, inFlight))
	if err != nil {
		return p, err
	}
	defer s.kill()
	return s.deliver(ctx, name, d, records)
}

// plainHTTP has the plain program post as much, in bodies of the size that docket had.
func (l *lab) plainHTTP(ctx context.Context, loops int, docket tally) (p passage, err error) {
	d, err := l.startDestination(ctx, receiveCommand)
	if err != nil {
		return p, err
	}
	defer d.Kill()
	per := int(math.Round(docket.perRequest()))
	o := postLoop{URL: "http://" + d.Address, Loops: loops, PerBatch: per, Batches: docket.Records / per}
	return l.plain(ctx, d, o.Batches*per, postLoopCommand, o)
}

// kafka measures docket and the plain program with headers and without.
func (l *lab) kafka(ctx context.Context) (map[string]float64, error) {
	dir, records, remove, err := l.backlogOf(ctx, l.records)
	if err != nil {
		return nil, err
	}
	defer remove()
	sums := passages{}
	for turn := range deliveryTurns {
		docket, err := l.overKafka(ctx, dir, fmt.Sprint("kafka-", turn), records)
		if err != nil {
			return nil, err
		}
		sums.add("docket", docket)
		plain, err := l.plainKafka(ctx, true, docket.tally)
		if err != nil {
			return nil, err
		}
		sums.add("plain", plain)
		bare, err := l.plainKafka(ctx, false, docket.tally)
		if err != nil {
			return nil, err
		}
		sums.add("bare", bare)
	}
	docket, plain, bare := sums["docket"], sums["plain"], sums["bare"]
	return map[string]float64{
		"rate": docket.rate(), "perRequest": docket.perRequest(), "cpu": docket.senderOfMillion(), "broker": docket.cpuOfMillion(),
		"plain": plain.rate(), "plainCPU": plain.senderOfMillion(),
		"bare": bare.rate(), "bareCPU": bare.senderOfMillion(),
	}, nil
}

// overKafka delivers the backlog in dir to a broker.
func (l *lab) overKafka(ctx context.Context, dir, name string, records int) (p passage, err error) {
	d, err := l.startDestination(ctx, brokerCommand)
	if err != nil {
		return p, err
	}
	defer d.Kill()
	s, err := l.startWith(ctx, dir, kafkaEntry(name, d.Address))
	if err != nil {
		return p, err
	}
	defer s.kill()
	return s.deliver(ctx, name, d, records)
}

// plainKafka has the plain program write as much, in requests of the size that
// docket had.
func (l *lab) plainKafka(ctx context.Context, headers bool, docket tally) (p passage, err error) {
	d, err := l.startDestination(ctx, brokerCommand)
	if err != nil {
		return p, err
	}
	defer d.Kill()
	per := int(math.Round(docket.perRequest()))
	o := produceLoop{Broker: d.Address, PerRequest: per, Requests: max(1, docket.Records/per/partitions), Headers: headers}
	return l.plain(ctx, d, partitions*o.Requests*per, produceLoopCommand, o)
}
