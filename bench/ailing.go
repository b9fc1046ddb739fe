package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/docket-export/docket/bench/record"
)

// ailing is an HTTP receiver in this process that fails on command, and knows what it
// has received: the records of one producer, by the number that each carries.
type ailing struct {
	address string
	server  *http.Server
	serving sync.WaitGroup

	mu       sync.Mutex
	failing  bool   // it answers 500; guarded by mu
	refuses  int    // the record that it answers 400 to; -1: none; guarded by mu
	received []bool // by number; guarded by mu
	through  int    // it has every record below; guarded by mu
	twice    int    // records that came again; guarded by mu
}

func newAiling() (*ailing, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &ailing{address: l.Addr().String(), refuses: -1}
	d.server = &http.Server{ReadHeaderTimeout: requestWait, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.WriteHeader(d.take(body))
	})}
	d.serving.Go(func() { _ = d.server.Serve(l) }) // until it is closed
	return d, nil
}

// take returns how a body is answered. What is answered 200 has been received.
func (d *ailing) take(body []byte) (status int) {
	numbers, err := recordNumbers(body)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failing {
		return http.StatusInternalServerError
	}
	if err != nil {
		return http.StatusBadRequest
	}
	for _, n := range numbers {
		if n == d.refuses {
			return http.StatusBadRequest
		}
	}
	for _, n := range numbers {
		for len(d.received) <= n {
			d.received = append(d.received, false)
		}
		if d.received[n] {
			d.twice++
		}
		d.received[n] = true
	}
	for d.through < len(d.received) && d.received[d.through] {
		d.through++
	}
	return http.StatusOK
}

// recordNumbers are those of the records in body, all of one producer.
func recordNumbers(body []byte) (numbers []int, err error) {
	for line := range bytes.Lines(body) {
		_, n, ok := record.ID(line)
		if !ok {
			return nil, fmt.Errorf("not a record of bench: %.60q", line)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// fail makes it answer 500, or no more.
func (d *ailing) fail(failing bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing = failing
}

// poison names a record that it will never take.
func (d *ailing) poison(number int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuses = number
}

// has reports whether it has the first records, so many.
func (d *ailing) has(records int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.through >= records
}

// books say what has become of so many records that were acknowledged, when
// everything is delivered and the numbers of those that were set aside are letters.
func (d *ailing) books(logged int, letters []int) map[string]float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept, innocent, received, lost := 0, 0, 0, 0
	aside := map[int]bool{}
	for _, n := range letters {
		if aside[n] = true; n == d.refuses {
			kept++
		} else {
			innocent++
		}
	}
	for n := range logged {
		switch {
		case n < len(d.received) && d.received[n]:
			received++
		case !aside[n]:
			lost++
		}
	}
	return map[string]float64{
		"logged": float64(logged), "received": float64(received), "twice": float64(d.twice),
		"lost": float64(lost), "letters": float64(len(letters)), "kept": float64(kept), "innocent": float64(innocent),
	}
}

func (d *ailing) close() {
	_ = d.server.Close() // and its listener
	d.serving.Wait()
}
