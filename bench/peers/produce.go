package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/decision/stream"
)

const (
	produceCommand = "produce"
	producers      = 8
	// linesInFlight is how many records of a producer may be unacknowledged.
	linesInFlight = 1024
	// linesPerWrite spares the producers most system calls: they share the
	// machine with what is measured.
	linesPerWrite = 64
	// produceWait bounds one load, until the last record was taken.
	produceWait = time.Minute
	// pacePause is how long a producer that is ahead of its rate sleeps.
	pacePause = 5 * time.Millisecond
)

// load is what producers do: all together they send so many records, numbered from
// First on at each of them, or what is taken until the limit.
type load struct {
	Socket       string
	First        int
	Records      int
	Limit        time.Duration // of sending
	Rate         int           // records a second of all together; 0: as fast as they are taken
	Acknowledged bool          // they speak docket's protocol, and else write lines and hear nothing
}

// produced is what came of a load.
type produced struct {
	Records int `json:"records"`
	// From the first write until all was taken: acknowledged, or else read to the
	// end of the stream and the connection closed. In Unix nanoseconds.
	Began int64 `json:"began"`
	Taken int64 `json:"taken"`
}

func (p produced) rate() float64 {
	return float64(p.Records) / time.Duration(p.Taken-p.Began).Seconds()
}

// run makes the load and returns when all of it was taken.
func (o load) run(context.Context) (produced, error) {
	all := make([]*producer, producers)
	for i := range all {
		p, err := o.connect(i)
		if err != nil {
			return produced{}, err
		}
		defer p.close()
		all[i] = p
	}
	errs := make([]error, producers)
	var running sync.WaitGroup
	began := time.Now()
	for i, p := range all {
		running.Go(func() {
			p.began = began
			errs[i] = p.run()
		})
	}
	running.Wait()
	done := produced{Began: began.UnixNano(), Taken: time.Now().UnixNano()}
	for _, p := range all {
		done.Records += p.sent
	}
	return done, errors.Join(errs...)
}

// each is how many records each producer sends when the limit does not stop it.
func (o load) each() int { return o.Records / producers }

// producer is one connection, with one goroutine.
type producer struct {
	load
	nc      *net.UnixConn
	replies *bufio.Reader
	block   *record.Block
	began   time.Time

	sent, acked int
}

func (o load) connect(number int) (*producer, error) {
	nc, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: o.Socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	p := &producer{load: o, nc: nc, replies: bufio.NewReaderSize(nc, stream.MaxReply), block: record.NewBlock(number)}
	if err := p.greet(number); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// close ends the connection, when nothing more is to come of it.
func (p *producer) close() { _ = p.nc.Close() }

// greet says hello where the producer is to hear acks.
func (p *producer) greet(number int) error {
	if err := p.nc.SetDeadline(time.Now().Add(produceWait)); err != nil {
		return err
	}
	if !p.Acknowledged {
		return nil
	}
	hello := stream.Hello{Producer: fmt.Sprintf("peers-%d-%d", os.Getpid(), number), Next: 1}
	if _, err := p.nc.Write(hello.Append(nil)); err != nil {
		return err
	}
	return p.receive()
}

// run sends the records and returns when they were taken.
func (p *producer) run() error {
	for p.sent < p.each() && time.Since(p.began) < p.Limit {
		n := p.room()
		if n == 0 {
			if err := p.receive(); err != nil {
				return err
			}
			continue
		}
		if n = min(n, p.due()); n == 0 {
			time.Sleep(pacePause)
			continue
		}
		lines := p.block.Next(p.First+p.sent, n)
		if _, err := p.nc.Write(lines); err != nil {
			return fmt.Errorf("after %d of %d records: %w", p.sent, p.each(), err)
		}
		p.sent += len(lines) / record.Bytes
	}
	return p.waitTaken()
}

// room is how many records may be written at once.
func (p *producer) room() int {
	n := min(linesPerWrite, p.each()-p.sent)
	if p.Acknowledged {
		n = min(n, linesInFlight-(p.sent-p.acked))
	}
	return n
}

// due is how many records the rate allows by now.
func (p *producer) due() int {
	if p.Rate == 0 {
		return linesPerWrite
	}
	return max(0, int(time.Since(p.began).Seconds()*float64(p.Rate)/producers)-p.sent)
}

// waitTaken waits for the last ack. Who sends none has taken all when it has read
// the end of the stream and closes the connection.
func (p *producer) waitTaken() error {
	if p.Acknowledged {
		for p.acked < p.sent {
			if err := p.receive(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := p.nc.CloseWrite(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, p.nc); err != nil {
		return fmt.Errorf("waiting for the end of the connection: %w", err)
	}
	return nil
}

// receive waits for one reply.
func (p *producer) receive() error {
	line, err := p.replies.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("waiting for an ack after %d of %d records: %w", p.acked, p.each(), err)
	}
	reply, err := stream.ParseReply(line[:len(line)-1])
	if err != nil {
		return err
	}
	switch r := reply.(type) {
	case stream.Answer:
	case stream.Ack:
		p.acked = int(r.Through)
	default:
		return fmt.Errorf("docket says %s", line)
	}
	return nil
}
