package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/decision/stream"
)

const (
	producers = 8
	// window is how many records a producer has unacknowledged, at most.
	window = 1024
	// linesPerWrite spares the producers most system calls: they share the machine with what is measured.
	linesPerWrite = 64
	// loadWait bounds one load, on a disk that takes no writes for instance.
	loadWait = 2 * time.Minute
)

// load is what producers do: they write records to a Unix socket, each its share.
type load struct {
	Socket    string
	Producers int
	// Window is how many records of a producer may be unacknowledged. 0: producers write plain lines and
	// hear nothing, or send requests of OTLP over HTTP, each of them one at a time.
	Window  int
	OTLP    bool
	Records int           // of all producers together
	First   int           // number of the first record of each producer
	Limit   time.Duration // of sending; 0: until all is sent
	Rate    int           // records a second of all together; 0: as fast as they are taken
	// Kill is a process that gets SIGKILL at the limit, while producers send. Then the load ends.
	Kill int
}

// fullLoad is what most is measured with.
func fullLoad(socket string, records int) *load {
	return &load{Socket: socket, Producers: producers, Window: window, Records: records}
}

func (o *load) each() int { return o.Records / o.Producers }

func (o *load) run() (done, error) {
	all := make([]*producer, o.Producers)
	for i := range all {
		p, err := o.connect(i)
		if err != nil {
			return done{}, err
		}
		defer p.nc.Close()
		all[i] = p
	}
	if o.Kill != 0 {
		defer time.AfterFunc(o.Limit, func() { _ = unix.Kill(o.Kill, unix.SIGKILL) }).Stop() // it fails where the process has ended
	}
	d, err := timed(len(all), func(i int) error { return all[i].run() })
	if o.Kill != 0 && d.Taken.Sub(d.Began) >= o.Limit {
		err = nil // no producer could go on
	}
	for _, p := range all {
		d.Each = append(d.Each, p.taken())
		d.Records += p.taken()
		d.Waits = append(d.Waits, p.waits...)
	}
	return d, err
}

// producer is one connection. It has one goroutine: it writes while there is room in the window, and
// else waits for acks.
type producer struct {
	*load
	nc      *net.UnixConn
	replies *bufio.Reader
	otlp    *http.Client // nil: it does not speak OTLP
	block   block
	atOnce  int // records in a write, at most
	began   time.Time
	sent    int
	acked   int
	wrote   time.Time // the last time
	waits   []time.Duration
}

func (o *load) connect(number int) (*producer, error) {
	nc, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: o.Socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	p := &producer{load: o, nc: nc, replies: bufio.NewReaderSize(nc, stream.MaxReply), block: newBlock(number), atOnce: linesPerWrite}
	if err = nc.SetDeadline(time.Now().Add(loadWait)); err != nil {
		return nil, err
	}
	switch {
	case o.OTLP:
		p.otlp, p.atOnce = otlpClient(nc), linesPerRequest
	case o.Window > 0:
		// Another load on the same docket has other producers.
		hello := stream.Hello{Producer: fmt.Sprintf("bench-%d-%d", os.Getpid(), number), Next: 1}
		if _, err = nc.Write(hello.Append(nil)); err == nil {
			err = p.receive()
		}
	}
	return p, err
}

// run sends the records and returns when they were taken.
func (p *producer) run() error {
	p.began = time.Now()
	for p.sent < p.each() && (p.Limit == 0 || p.Kill != 0 || time.Since(p.began) < p.Limit) {
		n, err := min(p.atOnce, p.each()-p.sent), error(nil)
		if p.Window > 0 {
			n = min(n, p.Window-(p.sent-p.acked))
		}
		if p.Rate > 0 { // no more than what is due by now
			n = min(n, int(time.Since(p.began).Seconds()*float64(p.Rate)/float64(p.Producers))-p.sent)
		}
		switch {
		case n > 0:
			err = p.write(p.block.next(p.First+p.sent, n))
		case p.Window > 0 && p.acked < p.sent:
			err = p.receive()
		default:
			time.Sleep(5 * time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("after %d of %d records: %w", p.sent, p.each(), err)
		}
	}
	return p.waitTaken()
}

func (p *producer) write(lines []byte) (err error) {
	p.wrote = time.Now()
	if p.otlp != nil {
		err = postOTLP(p.otlp, lines)
	} else {
		_, err = p.nc.Write(lines)
	}
	if err == nil {
		p.sent += len(lines) / recordBytes
	}
	return err
}

// taken is how many records were acknowledged or, where there are no acks, written.
func (p *producer) taken() int {
	if p.Window == 0 {
		return p.sent
	}
	return p.acked
}

// waitTaken waits for the last ack. A program that sends none has taken all when it has read the end of
// the stream and closes the connection.
func (p *producer) waitTaken() error {
	for p.Window > 0 && p.acked < p.sent {
		if err := p.receive(); err != nil {
			return err
		}
	}
	if p.Window > 0 || p.otlp != nil {
		return nil
	}
	if err := p.nc.CloseWrite(); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, p.nc)
	return err
}

// receive waits for one reply.
func (p *producer) receive() error {
	line, err := p.replies.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("wait for an ack: %w", err)
	}
	reply, err := stream.ParseReply(line[:len(line)-1])
	if err != nil {
		return err
	}
	switch r := reply.(type) {
	case stream.Answer:
	case stream.Ack:
		p.acked = int(r.Through)
		if p.Window == 1 {
			p.waits = append(p.waits, time.Since(p.wrote))
		}
	default:
		return fmt.Errorf("docket says %s", line)
	}
	return nil
}

const (
	// linesPerRequest are the records of a request of OTLP: the default of its SDKs.
	linesPerRequest = 512
	otlpPath        = "/v1/logs"
)

// otlpClient sends requests over one connection.
func otlpClient(nc net.Conn) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nc, nil
	}}}
}

// postOTLP sends lines, each a log record, and returns when they were taken.
func postOTLP(client *http.Client, lines []byte) error {
	resp, err := client.Post("http://collector"+otlpPath, "application/x-protobuf", bytes.NewReader(otlpRequest(lines)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	const taken = "\n\x00" // an empty field for the records that were not
	if err == nil && (resp.StatusCode != http.StatusOK || len(answer) > 0 && string(answer) != taken) {
		err = fmt.Errorf("%s: %q", resp.Status, answer)
	}
	return err
}

// otlpRequest is a request with lines, as protocol buffers.
func otlpRequest(lines []byte) []byte {
	field := func(number byte, content []byte) []byte {
		const lengthDelimited = 2
		return append(binary.AppendUvarint([]byte{number<<3 | lengthDelimited}, uint64(len(content))), content...)
	}
	var records []byte
	for line := range bytes.Lines(lines) {
		const body, stringValue, logRecords = 5, 1, 2
		records = append(records, field(logRecords, field(body, field(stringValue, bytes.TrimSuffix(line, []byte("\n")))))...)
	}
	const resourceLogs, scopeLogs = 1, 2
	return field(resourceLogs, field(scopeLogs, records))
}
