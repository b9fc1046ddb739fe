package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/exporter/deadletter"
)

const (
	// shortOutage is long enough for several attempts; longOutage is that of the bad
	// hour that docket is built for, and takes a minute.
	shortOutage = 10 * time.Second
	longOutage  = time.Minute

	outageRate = 2000 // records a second
	outageTick = 20 * time.Millisecond
	// calm is how long everything is well: before the outage, and around the poison.
	calm = time.Second
	// Both deliver over HTTP, each to a receiver of its own.
	outageSink  = "siem"
	defaultSink = "default" // with the pauses that a sink has unless configured
)

// outage logs at a steady rate to a docket whose receivers answer 500 for a while; one
// of them later answers 400 to whatever contains one certain record. It returns what
// has become of all records.
func (l *lab) outage(ctx context.Context, down time.Duration) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	siem, err := newAiling()
	if err != nil {
		return nil, err
	}
	defer siem.close()
	other, err := newAiling()
	if err != nil {
		return nil, err
	}
	defer other.close()
	s, err := l.startWith(ctx, dir, httpEntry(defaultSink, other.address, 1),
		fmt.Sprintf("- {name: %s, retry: {maxBackoff: 1s}, http: {url: %q}}", outageSink, "http://"+siem.address+"/"))
	if err != nil {
		return nil, err
	}
	defer s.kill()
	p, err := connect(s.socket, 0, record.NewBlock(0))
	if err != nil {
		return nil, err
	}
	defer p.nc.Close()
	hour := badHour{hand: &steadyHand{producer: p}, siem: siem, other: other, down: down}
	values, err := hour.run(ctx, l, s)
	if err != nil {
		return nil, errors.Join(err, s.LastWords())
	}
	return values, nil
}

// badHour is what producer and receivers go through.
type badHour struct {
	hand        *steadyHand
	siem, other *ailing
	down        time.Duration
}

func (h *badHour) run(ctx context.Context, l *lab, s *sidecar) (map[string]float64, error) {
	logging, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- h.hand.log(logging) }()

	caughtUp, err := h.weather(ctx)
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return nil, err
	}
	err = host.Poll(ctx, deliveredPause, func() (bool, error) {
		all, err := s.accounts(ctx)
		return all[outageSink].Pending == 0 && all[defaultSink].Pending == 0, err
	})
	if err != nil {
		return nil, fmt.Errorf("records are still pending: %w", err)
	}
	letters, err := l.deadLetters(ctx, s.config)
	if err != nil {
		return nil, err
	}
	logged := int(h.hand.logged.Load())
	if !h.other.has(logged) {
		return nil, fmt.Errorf("sink %s has delivered everything, and its receiver has not all of %d records", defaultSink, logged)
	}
	values := h.siem.books(logged, letters)
	values["caughtUp"], values["caughtUpDefault"] = caughtUp[0].Seconds(), caughtUp[1].Seconds()
	return values, nil
}

// weather returns how long it took from the end of the outage until each receiver had
// everything that was logged up to then.
func (h *badHour) weather(ctx context.Context) (caughtUp [2]time.Duration, err error) {
	receivers := [2]*ailing{h.siem, h.other}
	fail := func(failing bool) {
		for _, r := range receivers {
			r.fail(failing)
		}
	}
	if err := host.Sleep(ctx, calm); err != nil {
		return caughtUp, err
	}
	fail(true)
	if err := host.Sleep(ctx, h.down); err != nil {
		return caughtUp, err
	}
	fail(false)
	began, logged := time.Now(), int(h.hand.logged.Load())
	err = host.Poll(ctx, time.Millisecond, func() (bool, error) {
		for i, r := range receivers {
			if caughtUp[i] == 0 && r.has(logged) {
				caughtUp[i] = time.Since(began)
			}
		}
		return caughtUp[0] > 0 && caughtUp[1] > 0, nil
	})
	if err != nil {
		return caughtUp, fmt.Errorf("after the outage: %w", err)
	}
	if err := host.Sleep(ctx, calm); err != nil {
		return caughtUp, err
	}
	h.siem.poison(int(h.hand.logged.Load()) + outageRate/2) // in half a second
	return caughtUp, host.Sleep(ctx, 2*calm)
}

// steadyHand is a producer that logs outageRate records a second, each time waiting
// for its ack.
type steadyHand struct {
	producer *producer
	logged   atomic.Int64 // records that were acknowledged
}

// log goes on until ctx is done. What it was late with it makes up for.
func (h *steadyHand) log(ctx context.Context) error {
	const perTick = outageRate * int(outageTick) / int(time.Second)
	for due := time.Now(); host.Sleep(ctx, time.Until(due)) == nil; due = due.Add(outageTick) {
		if err := h.producer.nc.SetDeadline(time.Now().Add(produceWait)); err != nil {
			return err
		}
		if _, err := h.producer.send(perTick, perTick); err != nil {
			return err
		}
		h.logged.Store(int64(h.producer.acked))
	}
	return nil
}

// deadLetters returns the numbers of the records that docket has set aside. There is
// one producer, so a record's place in the queue is its number, counted from 1.
func (l *lab) deadLetters(ctx context.Context, config string) ([]int, error) {
	out, err := exec.CommandContext(ctx, l.docket, "deadletter", "ls", "-f", config, "--sink", outageSink, "-o", "json").Output()
	if err != nil {
		return nil, fmt.Errorf("%s deadletter ls: %w", filepath.Base(l.docket), err)
	}
	var letters []deadletter.Summary
	if err := json.Unmarshal(out, &letters); err != nil {
		return nil, fmt.Errorf("docket deadletter ls: %w", err)
	}
	numbers := make([]int, len(letters))
	for i, letter := range letters {
		seq, err := strconv.Atoi(letter.ID[strings.LastIndexByte(letter.ID, '-')+1:])
		if err != nil {
			return nil, fmt.Errorf("dead letter %s: %w", letter.ID, err)
		}
		numbers[i] = seq - 1
	}
	return numbers, nil
}
