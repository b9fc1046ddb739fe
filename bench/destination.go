package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/process"
)

// destination is a process of its own to which docket and the plain programs
// deliver. It does as little as such a server can, and counts what it takes, so
// that all of them are measured by the same clock.
//
// It listens from its start, and begins to take connections when it is told how
// many records to count. Whoever comes earlier waits, so that what a program does
// at its start is not measured.
type destination struct {
	*process.Server
}

// tally is what a destination has taken. The clock starts when the first request
// has come in, since that one was on its way before the destination could count.
type tally struct {
	Records  int     `json:"records"`
	Requests int     `json:"requests"`
	First    int     `json:"first"`   // records in the first request
	Seconds  float64 `json:"seconds"` // from the first request to the last
	CPU      float64 `json:"cpu"`     // processor time of the destination, in seconds
}

func (t tally) rate() float64         { return float64(t.Records-t.First) / t.Seconds }
func (t tally) perRequest() float64   { return float64(t.Records) / float64(t.Requests) }
func (t tally) cpuOfMillion() float64 { return t.CPU / float64(t.Records) * 1e6 }

// startDestination starts the process that runs command.
func (l *lab) startDestination(ctx context.Context, command string) (*destination, error) {
	s, err := process.StartServer(ctx, l.Self, command)
	return &destination{s}, err
}

// open lets the destination take records. It is called once.
func (d *destination) open(records int) error {
	_, err := fmt.Fprintln(d.Stdin, records)
	return err
}

// wait returns what the destination has taken, once that is as many records as it
// was opened for.
func (d *destination) wait() (t tally, err error) {
	line, err := d.ReadLine()
	if err != nil {
		return t, fmt.Errorf("waiting for the records to arrive: %w", err)
	}
	if err := json.Unmarshal([]byte(line), &t); err != nil {
		return t, fmt.Errorf("what has arrived: %w", err)
	}
	if t.Records <= t.First {
		return t, fmt.Errorf("all %d records came in one request: too few to measure", t.Records)
	}
	return t, nil
}

// serveFunc takes connections from l and counts what they bring, until stop is
// called.
type serveFunc func(l net.Listener, c *counter) (stop func(), err error)

// destinationMain is such a process. It ends with in: when whoever started it
// ends, however that happens, nothing is left behind.
func destinationMain(in io.Reader, out io.Writer, serve serveFunc) error {
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
	c, err := newCounter(records)
	if err != nil {
		return err
	}
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
	if err := json.NewEncoder(out).Encode(c.tally); err != nil {
		return err
	}
	return <-ended
}

// counter counts what a destination takes.
type counter struct {
	records int           // how many to count
	done    chan struct{} // closed when they have come; tally is not changed any more

	mu    sync.Mutex
	began time.Time     // guarded by mu
	cpu   time.Duration // at the start; guarded by mu
	tally tally         // guarded by mu until done is closed
}

func newCounter(records int) (*counter, error) {
	cpu, err := host.CPUTime(os.Getpid())
	return &counter{records: records, done: make(chan struct{}), cpu: cpu}, err
}

// add counts a request that has come in. What comes after the last record that is
// to be counted is not.
func (c *counter) add(records int) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.tally
	if t.Records >= c.records {
		return
	}
	if t.Requests == 0 {
		c.began, t.First = now, records
	}
	t.Requests++
	t.Records += records
	if t.Records < c.records {
		return
	}
	t.Seconds = now.Sub(c.began).Seconds()
	if cpu, err := host.CPUTime(os.Getpid()); err == nil { // it could be read at the start
		t.CPU = (cpu - c.cpu).Seconds()
	}
	close(c.done)
}
