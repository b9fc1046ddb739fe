package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/trial"
)

// requestWait bounds one request, however busy the machine is.
const requestWait = 10 * time.Second

// listen listens for whoever is told the address.
func listen() net.Listener { return trial.Must(net.Listen("tcp", "127.0.0.1:0")) }

// serveHTTP serves until the measurement ends.
func serveHTTP(t *trial.T, l net.Listener, handle http.HandlerFunc) {
	server := &http.Server{ReadHeaderTimeout: requestWait, Handler: handle}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // until it is closed
	t.Cleanup(func() error {
		_ = server.Close() // and its listener
		serving.Wait()
		return nil
	})
}

// readRecords reads the body of a request in large pieces and returns how many records it
// has; what is no body of records is answered.
func readRecords(w http.ResponseWriter, r *http.Request) (records int, ok bool) {
	buf, size := make([]byte, 64<<10), 0
	for {
		n, err := r.Body.Read(buf)
		size += n
		if errors.Is(err, io.EOF) && size%record.Bytes == 0 {
			return size / record.Bytes, true
		}
		if err != nil {
			http.Error(w, fmt.Sprintf("%d bytes are no records: %v", size, err), http.StatusBadRequest)
			return 0, false
		}
	}
}

// gate is an HTTP receiver in this process that takes everything, except while it is
// shut: then it has the requests that come wait, so that each sink has one under way
// and does nothing else. A sink in this state costs what a destination costs that does
// not answer.
type gate struct {
	address string
	came    chan time.Time // holds when the first request had come in full

	mu      sync.Mutex
	opened  chan struct{} // closed while the gate is open; guarded by mu
	waiting int           // requests that wait; guarded by mu
}

// newGate returns a gate that is open, until the measurement ends.
func newGate(t *trial.T) *gate {
	l := listen()
	g := &gate{address: l.Addr().String(), came: make(chan time.Time, 1), opened: make(chan struct{})}
	close(g.opened)
	serveHTTP(t, l, g.take)
	return g
}

func (g *gate) take(w http.ResponseWriter, r *http.Request) {
	if _, ok := readRecords(w, r); !ok {
		return
	}
	select {
	case g.came <- time.Now():
	default: // it is not the first
	}
	g.mu.Lock()
	opened := g.opened
	g.waiting++
	g.mu.Unlock()
	select {
	case <-opened:
	case <-r.Context().Done():
	}
	g.mu.Lock()
	g.waiting--
	g.mu.Unlock()
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
func (g *gate) wait(t *trial.T, requests int) {
	t.Poll(fmt.Sprintf("for %d sinks to stand at a shut gate", requests), askPause, readyWait, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.waiting == requests
	})
}
