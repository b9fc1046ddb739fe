package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/decision/stream"
)

const (
	produceCommand = "produce"
	// linesPerWrite spares the producers most system calls: they share the
	// machine with what is measured.
	linesPerWrite = 64
	// produceWait bounds one load, on a disk that takes no writes for instance.
	produceWait = time.Minute
)

// load is what producers do: each sends its share of the records and never has
// more than Window of them unacknowledged.
type load struct {
	Socket    string
	Producers int
	Window    int
	Records   int // of all producers together
}

// produced is what came of a load.
type produced struct {
	Records int     `json:"records"`
	Seconds float64 `json:"seconds"` // from the first write to the last ack
	// CPU is the processor time of the process meanwhile, in seconds.
	CPU float64 `json:"cpu"`
}

func (p produced) took() time.Duration { return time.Duration(p.Seconds * float64(time.Second)) }

// produce runs the load in a process of its own.
func (l *lab) produce(ctx context.Context, o load) (produced, error) {
	var p produced
	err := process.Call(ctx, l.Self, produceCommand, o, &p)
	return p, err
}

func (o load) run(context.Context) (produced, error) {
	all := make([]*producer, o.Producers)
	for i := range all {
		p, err := newProducer(o, i)
		if err != nil {
			return produced{}, err
		}
		defer p.nc.Close()
		all[i] = p
	}
	p, err := timed(len(all), func(i int) error { return all[i].run() })
	if err != nil {
		return p, err
	}
	p.Records = o.Records / o.Producers * o.Producers
	return p, nil
}

// timed runs n goroutines to their end and returns the time that took, by the
// clock and of the processors.
func timed(n int, run func(i int) error) (produced, error) {
	errs := make([]error, n)
	var running sync.WaitGroup
	cpu, err := host.CPUTime(os.Getpid())
	if err != nil {
		return produced{}, err
	}
	began := time.Now()
	for i := range errs {
		running.Go(func() { errs[i] = run(i) })
	}
	running.Wait()
	took := time.Since(began)
	cpuAfter, err := host.CPUTime(os.Getpid())
	return produced{Seconds: took.Seconds(), CPU: (cpuAfter - cpu).Seconds()}, errors.Join(errors.Join(errs...), err)
}

// quantiles returns the median and the 99th percentile in microseconds.
func quantiles(waits []time.Duration) (p50, p99 float64) {
	slices.Sort(waits)
	at := func(q float64) float64 {
		return float64(waits[int(q*float64(len(waits)-1))].Nanoseconds()) / 1000
	}
	return at(0.50), at(0.99)
}

// producer is one connection in acknowledged mode. It has one goroutine: it
// writes while there is room in the window, and else waits for acks.
type producer struct {
	nc      net.Conn
	replies *bufio.Reader
	block   *record.Block
	window  uint64
	records uint64

	sent, acked uint64
	writes      []write // not yet acked
	waits       []time.Duration
}

type write struct {
	last uint64
	at   time.Time
}

func newProducer(o load, number int) (*producer, error) {
	p, err := connect(o.Socket, number, record.NewBlock(number))
	if err != nil {
		return nil, err
	}
	p.window, p.records = uint64(o.Window), uint64(o.Records/o.Producers)
	return p, nil
}

// connect makes a producer that has been greeted and has nothing to send. It must
// have done everything within produceWait.
func connect(socket string, number int, b *record.Block) (*producer, error) {
	nc, err := dial(socket)
	if err != nil {
		return nil, err
	}
	p := &producer{nc: nc, replies: bufio.NewReaderSize(nc, stream.MaxReply), block: b}
	if err := p.greet(number); err != nil {
		nc.Close()
		return nil, err
	}
	return p, nil
}

func (p *producer) greet(number int) error {
	if err := p.nc.SetDeadline(time.Now().Add(produceWait)); err != nil {
		return err
	}
	// Another load on the same docket has other producers.
	hello := stream.Hello{Producer: fmt.Sprintf("bench-%d-%d", os.Getpid(), number), Next: 1}
	if _, err := p.nc.Write(hello.Append(nil)); err != nil {
		return err
	}
	return p.receive()
}

// dial waits for the socket: a server that was just started may not have it yet.
func dial(socket string) (nc net.Conn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyWait)
	defer cancel()
	waited := host.Poll(ctx, time.Millisecond, func() (bool, error) {
		nc, err = net.Dial("unix", socket)
		return err == nil, nil
	})
	if waited != nil {
		return nil, err
	}
	return nc, nil
}

func (p *producer) run() error {
	for p.acked < p.records {
		room := min(p.window-(p.sent-p.acked), p.records-p.sent)
		if room == 0 {
			if err := p.receive(); err != nil {
				return err
			}
			continue
		}
		lines := p.block.Next(int(p.sent), int(min(room, linesPerWrite)))
		at := time.Now()
		if _, err := p.nc.Write(lines); err != nil {
			return err
		}
		p.sent += uint64(len(lines) / record.Bytes)
		p.writes = append(p.writes, write{p.sent, at})
	}
	return nil
}

// send sends so many more records, at most window of them unacknowledged, and returns how long each write waited for its ack.
func (p *producer) send(records, window int) ([]time.Duration, error) {
	p.records += uint64(records)
	p.window = uint64(window)
	p.waits = nil
	err := p.run()
	return p.waits, err
}

// receive waits for one reply.
func (p *producer) receive() error {
	line, err := p.replies.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("waiting for an ack after %d of %d records: %w", p.acked, p.records, err)
	}
	reply, err := stream.ParseReply(line[:len(line)-1])
	if err != nil {
		return err
	}
	switch r := reply.(type) {
	case stream.Answer:
		p.acked = r.Acked
	case stream.Ack:
		p.acked = r.Through
		now := time.Now()
		for len(p.writes) > 0 && p.writes[0].last <= p.acked {
			p.waits = append(p.waits, now.Sub(p.writes[0].at))
			p.writes = p.writes[1:]
		}
	default:
		return fmt.Errorf("docket says %s", line)
	}
	return nil
}

func (p produced) rate() float64 { return float64(p.Records) / p.Seconds }

// addLoad runs the load and adds what came of it to sum.
func (l *lab) addLoad(ctx context.Context, sum *produced, o load) error {
	p, err := l.produce(ctx, o)
	sum.Records += p.Records
	sum.Seconds += p.Seconds
	sum.CPU += p.CPU
	return err
}
