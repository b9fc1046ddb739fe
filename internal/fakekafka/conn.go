package fakekafka

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// own is the name of the client that this package is itself: nothing happens to it.
const own = "fakekafka"

var errCut = errors.New("the connection was cut by the test")

// conn is the brokers' end of a connection. It hands requests to the broker whole, one at a
// time, as the broker reads them.
type conn struct {
	net.Conn
	cluster *Cluster
	client  string // who is at the other end, as of the first request; guarded by cluster.mu
	rest    []byte // of the request that the broker reads; owned by Read

	mu     sync.Mutex
	answer func([]byte) ([]byte, error) // what becomes of the answer to the request under way; nil: it is sent
}

// request is one that has come.
type request struct {
	kmsg.Request
	correlation int32
	client      string
}

func readRequest(r io.Reader) ([]byte, *request, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, nil, err
	}
	frame := make([]byte, len(size)+int(binary.BigEndian.Uint32(size[:])))
	copy(frame, size[:])
	if _, err := io.ReadFull(r, frame[len(size):]); err != nil {
		return nil, nil, err
	}
	b := kbin.Reader{Src: frame[len(size):]}
	req := &request{Request: kmsg.RequestForKey(b.Int16())}
	req.SetVersion(b.Int16())
	req.correlation = b.Int32()
	if client := b.NullableString(); client != nil {
		req.client = *client
	}
	if req.IsFlexible() {
		kmsg.SkipTags(&b)
	}
	return frame, req, req.ReadFrom(b.Src)
}

// bytes are req as it goes to a broker.
func (req *request) bytes() []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(req.client)).AppendRequest(nil, req.Request, req.correlation)
}

// answer is res as the answer to req.
func (req *request) answer(res kmsg.Response) []byte {
	res.SetVersion(req.GetVersion())
	b := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(req.correlation))
	if res.IsFlexible() && res.Key() != int16(kmsg.ApiVersions) {
		b = append(b, 0)
	}
	b = res.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		frame, req, err := readRequest(c.Conn)
		if err != nil {
			return 0, err
		}
		c.onAnswer(nil)
		c.cluster.mu.Lock()
		c.client = req.client
		c.cluster.mu.Unlock()
		if !slices.Contains(Judged, kmsg.Key(req.Key())) || req.client == own {
			if err := c.cluster.passes(req.client); err != nil {
				c.Conn.Close()
				return 0, err
			}
			c.rest = frame
			break
		}
		if c.rest, err = c.cluster.judge(c, req); err != nil {
			c.Conn.Close()
			return 0, err
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write implements net.Conn: p is one answer.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	answer := c.answer
	c.answer = nil
	c.mu.Unlock()
	sent := p
	if answer != nil {
		var err error
		if sent, err = answer(p); err != nil {
			c.Conn.Close()
			return 0, err
		}
	}
	c.cluster.mu.Lock()
	client := c.client
	c.cluster.mu.Unlock()
	if err := c.cluster.passes(client); err != nil {
		return 0, err
	}
	if _, err := c.Conn.Write(sent); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.cluster.mu.Lock()
	delete(c.cluster.conns, c)
	c.cluster.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) onAnswer(answer func([]byte) ([]byte, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

// say answers req instead of the broker.
func (c *conn) say(req *request, res kmsg.Response) error {
	_, err := c.Conn.Write(req.answer(res))
	return err
}

func lose([]byte) ([]byte, error) { return nil, errCut }

// passes waits while client is stopped. Its error is that client is dead.
func (c *Cluster) passes(client string) error {
	c.mu.Lock()
	stopped := c.stopped[client]
	c.mu.Unlock()
	if stopped != nil {
		select {
		case <-stopped:
		case <-c.done:
			return errCut
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead[client] {
		return errCut
	}
	return nil
}
