package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/docket-export/docket/bench/host"
)

// gate is an HTTP receiver in this process that takes everything, except while it is
// shut: then it has the requests that come wait, so that each sink has one under way
// and does nothing else. A sink in this state costs what a destination costs that does
// not answer.
type gate struct {
	address string
	server  *http.Server
	serving sync.WaitGroup

	mu      sync.Mutex
	opened  chan struct{} // closed while the gate is open; guarded by mu
	waiting int           // requests that wait; guarded by mu
}

// newGate returns a gate that is open.
func newGate() (*gate, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gate{address: l.Addr().String(), opened: make(chan struct{})}
	close(g.opened)
	g.server = &http.Server{ReadHeaderTimeout: requestWait, Handler: http.HandlerFunc(g.take)}
	g.serving.Go(func() { _ = g.server.Serve(l) }) // until it is closed
	return g, nil
}

func (g *gate) take(w http.ResponseWriter, r *http.Request) {
	if _, err := readBody(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	opened := g.opened
	g.waiting++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.waiting--
		g.mu.Unlock()
	}()
	select {
	case <-opened:
	case <-r.Context().Done():
	}
}

// shut has requests wait from now on.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

// open lets in what waits, and everything after it.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
}

// wait returns when so many requests wait.
func (g *gate) wait(ctx context.Context, requests int) error {
	err := host.Poll(ctx, deliveredPause, func() (bool, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.waiting == requests, nil
	})
	if err != nil {
		return fmt.Errorf("%d sinks that are to stand at a shut gate: %w", requests, err)
	}
	return nil
}

// close ends the gate, and what waits there.
func (g *gate) close() {
	_ = g.server.Close() // and its listener
	g.serving.Wait()
}
