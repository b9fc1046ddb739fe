package load

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/decision/stream"
)

// Producer is one connection. It has one goroutine: it writes while there is room in
// the window, and else waits for acks.
type Producer struct {
	nc      *net.UnixConn
	replies *bufio.Reader
	otlp    *http.Client // nil: it does not speak OTLP
	block   *record.Block
	load    Load // what it has to do; Records are those of this producer, all in all
	atOnce  int  // records in a write, at most
	began   time.Time

	sent, acked int
	writes      []write // not yet acked
	waits       []time.Duration
}

type write struct {
	last int
	at   time.Time
}

// Connect makes a producer in docket's protocol that has been greeted and has nothing
// to send. It must have done everything within Wait.
func Connect(socket string, number int, b *record.Block) (*Producer, error) {
	return Load{Socket: socket, Producers: 1, Window: 1}.connect(number, b)
}

// connect makes one of the producers of a load.
func (o Load) connect(number int, b *record.Block) (*Producer, error) {
	nc, err := dial(o.Socket)
	if err != nil {
		return nil, err
	}
	p := &Producer{nc: nc, replies: bufio.NewReaderSize(nc, stream.MaxReply), block: b, load: o, atOnce: LinesPerWrite}
	p.load.Records = o.Each()
	if o.OTLP {
		p.otlp, p.atOnce = otlpClient(nc), LinesPerRequest
		return p, nil
	}
	if o.Window == 0 {
		return p, nil
	}
	// Another load on the same docket has other producers.
	hello := stream.Hello{Producer: fmt.Sprintf("bench-%d-%d", os.Getpid(), number), Next: 1}
	if _, err = nc.Write(hello.Append(nil)); err == nil {
		err = p.receive()
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// dial waits for the socket: a server that was just started may not have it yet.
func dial(socket string) (*net.UnixConn, error) {
	deadline := time.Now().Add(Wait)
	for {
		nc, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		if err == nil {
			return nc, nc.SetDeadline(deadline)
		}
		if time.Now().After(deadline) {
			return nil, err
		}
		time.Sleep(time.Millisecond)
	}
}

// Close ends the connection, when nothing more is to come of it.
func (p *Producer) Close() { _ = p.nc.Close() }

// Send sends so many more records, at most window of them unacknowledged, and returns
// how long each write waited for its ack.
func (p *Producer) Send(records, window int) ([]time.Duration, error) {
	p.load.Records, p.load.Window, p.waits = p.load.Records+records, window, nil
	err := p.run()
	return p.waits, err
}

// run sends the records and returns when they were taken.
func (p *Producer) run() error {
	p.began = time.Now()
	for p.sent < p.load.Records && (p.load.Limit == 0 || p.load.Kill != 0 || time.Since(p.began) < p.load.Limit) {
		n := p.room()
		if n == 0 {
			if err := p.receive(); err != nil {
				return err
			}
			continue
		}
		if n = min(n, p.due()); n == 0 {
			if err := p.pause(); err != nil {
				return err
			}
			continue
		}
		lines := p.block.Next(p.load.First+p.sent, n)
		at := time.Now()
		if err := p.write(lines); err != nil {
			return fmt.Errorf("after %d of %d records: %w", p.sent, p.load.Records, err)
		}
		p.sent += len(lines) / record.Bytes
		p.writes = append(p.writes, write{p.sent, at})
	}
	return p.waitTaken()
}

// pause lets some time pass, in which acks are read that there are to come.
func (p *Producer) pause() error {
	if p.load.Window > 0 && p.acked < p.sent {
		return p.receive()
	}
	time.Sleep(pacePause)
	return nil
}

// write sends lines. With OTLP they are acknowledged as well.
func (p *Producer) write(lines []byte) error {
	if p.otlp == nil {
		_, err := p.nc.Write(lines)
		return err
	}
	if err := postOTLP(p.otlp, lines); err != nil {
		return err
	}
	p.acked += len(lines) / record.Bytes
	return nil
}

// taken is how many records were acknowledged or, where there are no acks, written.
func (p *Producer) taken() int {
	if p.load.Window == 0 && p.otlp == nil {
		return p.sent
	}
	return p.acked
}

// room is how many records may be written at once.
func (p *Producer) room() int {
	n := min(p.atOnce, p.load.Records-p.sent)
	if p.load.Window > 0 {
		n = min(n, p.load.Window-(p.sent-p.acked))
	}
	return n
}

// due is how many records the rate allows by now.
func (p *Producer) due() int {
	if p.load.Rate == 0 {
		return p.atOnce
	}
	return max(0, int(time.Since(p.began).Seconds()*float64(p.load.Rate)/float64(p.load.Producers))-p.sent)
}

// waitTaken waits for the last ack. A program that sends none has taken all when it has
// read the end of the stream and closes the connection.
func (p *Producer) waitTaken() error {
	if p.otlp != nil {
		return nil
	}
	if p.load.Window > 0 {
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
func (p *Producer) receive() error {
	line, err := p.replies.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("waiting for an ack after %d of %d records: %w", p.acked, p.load.Records, err)
	}
	reply, err := stream.ParseReply(line[:len(line)-1])
	if err != nil {
		return err
	}
	switch r := reply.(type) {
	case stream.Answer:
	case stream.Ack:
		p.acked = int(r.Through)
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
