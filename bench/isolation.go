package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/process"
)

// slowAnswer is how long the slow receiver takes for a batch.
const slowAnswer = 100 * time.Millisecond

// isolation measures what a good sink loses to three that are in trouble.
func (l *lab) isolation(ctx context.Context) (map[string]float64, error) {
	dir, records, remove, err := l.backlogOf(ctx, 2*l.records)
	if err != nil {
		return nil, err
	}
	defer remove()
	sums, slow := passages{}, 0
	for turn := range deliveryTurns {
		p, err := l.overHTTP(ctx, dir, fmt.Sprint("alone-", turn), 1, records)
		if err != nil {
			return nil, err
		}
		sums.add("alone", p)
		p, got, err := l.besideTrouble(ctx, dir, fmt.Sprint(turn), records)
		if err != nil {
			return nil, err
		}
		sums.add("beside", p)
		slow += got
	}
	alone, beside := sums["alone"], sums["beside"]
	return map[string]float64{
		"alone": alone.rate(), "beside": beside.rate(), "slow": float64(slow) / deliveryTurns,
		"aloneCPU": alone.senderOfMillion(), "besideCPU": beside.senderOfMillion(),
	}, nil
}

// besideTrouble delivers the backlog in dir to a receiver, when docket has met with
// every kind of trouble. It returns how many records the slow one has got meanwhile.
// The names of the sinks end in turn, so that the queue does not know them yet.
func (l *lab) besideTrouble(ctx context.Context, dir, turn string, records int) (p passage, slow int, err error) {
	t, err := startTrouble()
	if err != nil {
		return p, 0, err
	}
	defer t.close()
	d, err := l.startDestination(ctx, receiveCommand)
	if err != nil {
		return p, 0, err
	}
	defer d.Kill()
	good, hole, refusing, slowly := "good-"+turn, "hole-"+turn, "refusing-"+turn, "slow-"+turn
	s, err := l.startWith(ctx, dir, httpEntry(good, d.Address, 1), httpEntry(hole, t.hole.Addr().String(), 1),
		httpEntry(refusing, t.refusing, 1), httpEntry(slowly, t.slow.Addr().String(), 1))
	if err != nil {
		return p, 0, err
	}
	defer s.kill()
	if err := t.wait(ctx, s, refusing); err != nil {
		return p, 0, errors.Join(err, s.LastWords())
	}
	if p, err = s.deliver(ctx, good, d, records); err != nil {
		return p, 0, err
	}
	slow, err = s.delivered(ctx, slowly)
	return p, slow, err
}

// trouble is three destinations, each bad in its own way.
type trouble struct {
	hole     net.Listener // takes connections, and reads nothing
	refusing string       // an address that nobody listens on
	slow     net.Listener // of an HTTP receiver that takes its time
	server   *http.Server
	running  sync.WaitGroup

	swallowed chan struct{} // closed when hole has a connection
	slowed    chan struct{} // closed when slow has a batch
}

func startTrouble() (*trouble, error) {
	t := &trouble{swallowed: make(chan struct{}), slowed: make(chan struct{})}
	var err error
	if t.refusing, err = process.FreeAddress(); err != nil {
		return nil, err
	}
	if t.hole, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if t.slow, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, t.hole.Close())
	}
	var first sync.Once
	t.server = &http.Server{ReadHeaderTimeout: requestWait, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		first.Do(func() { close(t.slowed) })
		select {
		case <-time.After(slowAnswer):
		case <-r.Context().Done():
		}
	})}
	t.running.Go(t.swallow)
	t.running.Go(func() { _ = t.server.Serve(t.slow) }) // until it is closed
	return t, nil
}

// swallow holds connections until there are no more.
func (t *trouble) swallow() {
	var held []net.Conn
	for {
		nc, err := t.hole.Accept()
		if err != nil {
			break
		}
		if held = append(held, nc); len(held) == 1 {
			close(t.swallowed)
		}
	}
	for _, nc := range held {
		nc.Close()
	}
}

// wait returns when docket has met with all of it. refusing is the sink that is
// refused.
func (t *trouble) wait(ctx context.Context, s *sidecar, refusing string) error {
	for _, met := range []<-chan struct{}{t.swallowed, t.slowed} {
		select {
		case <-met:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the bad sinks: %w", ctx.Err())
		}
	}
	return host.Poll(ctx, deliveredPause, func() (bool, error) {
		attempts, err := s.attempts(ctx, refusing)
		return attempts > 0, err
	})
}

// close ends all of it; docket may still be connected.
func (t *trouble) close() {
	_ = t.hole.Close()
	_ = t.server.Close() // and its listener
	t.running.Wait()
}
