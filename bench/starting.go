package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/exporter/queue"
)

const (
	// startRecords come to 500 MB.
	startRecords = 500_000_000 / record.Bytes
	startTurns   = 5
)

// starting measures how soon docket is at work over a backlog of 500 MB that was
// closed, or whose process was killed in the middle of a load.
func (l *lab) starting(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	queueDir := filepath.Join(dir, "queue")
	if err := fillQueue(ctx, queueDir, startRecords/producers*producers); err != nil {
		return nil, err
	}
	listening, first, values := map[string][]time.Duration{}, map[string][]time.Duration{}, map[string]float64{}
	for turn := range startTurns {
		for _, kind := range []struct {
			key     string
			prepare func(context.Context, string) error
		}{{"closed", closeCleanly}, {"killed", l.crash}} {
			if err := kind.prepare(ctx, queueDir); err != nil {
				return nil, err
			}
			b, err := l.begin(ctx, dir, fmt.Sprint(kind.key, "-", turn))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind.key, err)
			}
			listening[kind.key], first[kind.key] = append(listening[kind.key], b.listening), append(first[kind.key], b.first)
			values[kind.key+"Memory"] = max(values[kind.key+"Memory"], b.memory)
		}
	}
	for _, key := range []string{"closed", "killed"} {
		listens, _ := quantiles(listening[key])
		delivers, _ := quantiles(first[key])
		values[key], values[key+"First"] = listens/1000, delivers/1000
	}
	return values, nil
}

// closeCleanly opens the queue in dir, and closes it.
func closeCleanly(ctx context.Context, dir string) error {
	q, err := queue.Open(queue.Options{Directory: dir})
	if err != nil {
		return err
	}
	return q.Close(ctx)
}

// beginning is how a docket has begun.
type beginning struct {
	listening time.Duration // until its socket takes a connection
	first     time.Duration // until a destination has the first batch
	memory    float64       // resident then, at most, in MB
}

// begin starts docket over the queue in dir, with a sink that the queue does not know
// yet, and kills it when that has delivered its first batch.
func (l *lab) begin(ctx context.Context, dir, sink string) (b beginning, err error) {
	d, err := newDoorstep()
	if err != nil {
		return b, err
	}
	defer d.close()
	began := time.Now()
	s, err := l.launch(ctx, dir, setup{sinks: []string{httpEntry(sink, d.address, 1)}})
	if err != nil {
		return b, err
	}
	defer s.kill()
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := listens(ctx, s.socket); err != nil {
		return b, errors.Join(err, s.LastWords())
	}
	b.listening = time.Since(began)
	select {
	case at := <-d.came:
		b.first = at.Sub(began)
	case <-ctx.Done():
		return b, errors.Join(fmt.Errorf("waiting for the first batch: %w", ctx.Err()), s.LastWords())
	}
	b.memory, err = s.Memory("VmHWM")
	return b, err
}

// listens returns when the socket takes a connection. It looks often: what is waited
// for takes some milliseconds.
func listens(ctx context.Context, socket string) error {
	const pause = 100 * time.Microsecond
	return host.Poll(ctx, pause, func() (bool, error) {
		nc, err := net.Dial("unix", socket)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		return true, nc.Close()
	})
}

// doorstep is an HTTP receiver in this process that says when the first request has
// come in full, and answers none: docket does nothing more then.
type doorstep struct {
	address string
	server  *http.Server
	serving sync.WaitGroup
	came    chan time.Time // holds the time of the first
}

func newDoorstep() (*doorstep, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &doorstep{address: l.Addr().String(), came: make(chan time.Time, 1)}
	d.server = &http.Server{ReadHeaderTimeout: requestWait, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		select {
		case d.came <- time.Now():
		default: // it is not the first
		}
		<-r.Context().Done()
	})}
	d.serving.Go(func() { _ = d.server.Serve(l) }) // until it is closed
	return d, nil
}

func (d *doorstep) close() {
	_ = d.server.Close() // and its listener
	d.serving.Wait()
}
