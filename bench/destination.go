package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
)

// destination is a process of its own to which docket and the plain programs
// deliver. It does as little as such a server can, and counts what it takes, so
// that all of them are measured by the same clock.
//
// It listens from its start, and begins to take connections when it is told how
// many records to count. Connections that come earlier wait, so that what a program
// does at its start is not measured.
type destination struct {
	*process.Server
}

// startDestination starts the process that runs command.
func (l *lab) startDestination(command string) destination {
	return destination{process.StartServer(l.T, l.Self, command)}
}

// open lets the destination take records. It is called once.
func (d destination) open(records int) { trial.Must(fmt.Fprintln(d.Stdin, records)) }

// wait returns what the destination has taken behind the first request, once that was
// as many records as it was opened for: the first was on its way before the
// destination could count.
func (d destination) wait() (s stint) {
	trial.Check(json.Unmarshal([]byte(d.ReadLine()), &s))
	if s.Parts == 0 {
		trial.Check(errors.New("all records came in one request: too few to measure"))
	}
	return s
}

// destinationMain returns the process of a destination. It ends with its standard input.
// serve takes connections from l and counts what they bring, until stop is called.
func destinationMain(serve func(l net.Listener, c *counter) (stop func(), err error)) func(context.Context, []string, io.Writer) error {
	return func(_ context.Context, _ []string, out io.Writer) error { return countRecords(os.Stdin, out, serve) }
}

func countRecords(in io.Reader, out io.Writer, serve func(net.Listener, *counter) (func(), error)) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // what serves has closed it before
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	orders := bufio.NewScanner(in)
	if !orders.Scan() {
		return orders.Err()
	}
	records, err := strconv.Atoi(orders.Text())
	if err != nil {
		return fmt.Errorf("how many records to count: %w", err)
	}
	c := newCounter(records)
	stop, err := serve(l, c)
	if err != nil {
		return err
	}
	defer stop()
	ended := make(chan error, 1)
	go func() {
		for orders.Scan() { // nothing more is ordered
		}
		ended <- orders.Err()
	}()
	select {
	case <-c.done:
	case err := <-ended:
		return err
	}
	if err := json.NewEncoder(out).Encode(c.sum); err != nil {
		return err
	}
	return <-ended
}

// counter counts what a destination takes.
type counter struct {
	done chan struct{} // closed when all records have come; sum is not changed any more

	mu    sync.Mutex
	left  int           // how many records to count; guarded by mu
	began time.Time     // when the first request had come; guarded by mu
	cpu   time.Duration // used then; guarded by mu
	sum   stint         // of the requests after the first; guarded by mu until done is closed
}

func newCounter(records int) *counter { return &counter{left: records, done: make(chan struct{})} }

// add counts a request that has come in. What comes after the last record that is
// to be counted is not.
func (c *counter) add(records int) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left <= 0 {
		return
	}
	c.left -= records
	if c.began.IsZero() {
		c.began, c.cpu = now, ownCPU()
	} else {
		c.sum.Parts++
		c.sum.Records += records
	}
	if c.left <= 0 {
		c.sum.Took, c.sum.CPU = now.Sub(c.began), ownCPU()-c.cpu
		close(c.done)
	}
}

// ownCPU is what this process has used so far, on a system that tells.
func ownCPU() time.Duration {
	cpu, _ := host.CPUTime(os.Getpid()) // bench has read that of docket
	return cpu
}

// serveRecords is the least that an HTTP receiver does: it reads the body and says 200.
func serveRecords(l net.Listener, c *counter) (stop func(), err error) {
	return serveHTTP(l, func(w http.ResponseWriter, r *http.Request) {
		if records, ok := readRecords(w, r); ok {
			c.add(records)
		}
	}), nil
}
