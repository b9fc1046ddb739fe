package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/record"
)

// paces are the rates at which a sidecar is looked at, in records a second.
var paces = []int{10, 1000, 50_000}

const (
	// paceTick is how often a paced producer sends, and tells so many records apart.
	paceTick = 10 * time.Millisecond
	// paceTime is how long each rate is held. At the lowest of them 50 records come.
	paceTime = 5 * time.Second
	// scaleBrokers is the size of the cluster.
	scaleBrokers = 3
)

func paceKey(key string, pace int) string { return key + strconv.Itoa(pace) }

func (l *lab) paces(ctx context.Context) (map[string]float64, error) {
	values := map[string]float64{}
	for _, pace := range paces {
		if err := l.atPace(ctx, pace, values); err != nil {
			return nil, fmt.Errorf("%d records/s: %w", pace, err)
		}
	}
	return values, nil
}

// atPace measures one docket at one rate.
func (l *lab) atPace(ctx context.Context, pace int, values map[string]float64) (err error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return err
	}
	defer remove()
	brokers, err := newBrokers()
	if err != nil {
		return err
	}
	defer brokers.Close()
	s, err := l.startWith(ctx, dir, kafkaEntry("kafka", brokers.ListenAddrs()[0]))
	if err != nil {
		return err
	}
	defer s.kill()
	p, err := connect(s.socket, 0, record.NewBlock(0))
	if err != nil {
		return err
	}
	defer p.nc.Close()
	// Until there is a connection to every leader, and the buffers are there.
	if err := p.atPace(ctx, pace, time.Second); err != nil {
		return err
	}
	if err := settle(ctx, filepath.Join(dir, "queue")); err != nil {
		return err
	}
	before, err := s.usage(ctx, dir, brokers)
	if err != nil {
		return err
	}
	if err := p.atPace(ctx, pace, paceTime); err != nil {
		return err
	}
	after, err := s.usage(ctx, dir, brokers)
	if err != nil {
		return err
	}
	for key, v := range after.since(before) {
		values[paceKey(key, pace)] = v
	}
	values[paceKey("connections", pace)] = float64(brokers.open.Load())
	values[paceKey("memory", pace)], err = s.Memory("VmRSS")
	return err
}

// atPace sends so many records a second for a time, and has the acks of all.
func (p *producer) atPace(ctx context.Context, pace int, d time.Duration) error {
	tick := max(paceTick, time.Second/time.Duration(pace))
	each := max(1, int(time.Duration(pace)*tick/time.Second))
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if _, err := p.send(each, each); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// brokers is a cluster that counts what is asked of it.
type brokers struct {
	*kfake.Cluster
	open                      atomic.Int64 // connections
	received                  atomic.Int64 // bytes
	produces, metadatas, sent atomic.Int64 // requests, and records in them
}

func newBrokers() (*brokers, error) {
	b := &brokers{}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(scaleBrokers),
		kfake.SeedTopics(partitions, benchTopic),
		kfake.BlackholeProduce(),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := net.Listen(network, address)
			return countingListener{l, b}, err
		}),
	)
	if err != nil {
		return nil, err
	}
	b.Cluster = cluster
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		b.produces.Add(1)
		for _, topic := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range topic.Partitions {
				b.sent.Add(int64(recordsIn(p.Records)))
			}
		}
		return nil, nil, false // the broker does the rest
	})
	cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		b.metadatas.Add(1)
		return nil, nil, false
	})
	return b, nil
}

type countingListener struct {
	net.Listener
	b *brokers
}

func (l countingListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.b.open.Add(1)
	return &countedConn{Conn: nc, b: l.b}, nil
}

type countedConn struct {
	net.Conn
	b      *brokers
	closed atomic.Bool
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.b.received.Add(int64(n))
	return n, err
}

func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		c.b.open.Add(-1)
	}
	return c.Conn.Close()
}

// usage is what a docket has used and asked for since it started.
type usage struct {
	at                                            time.Time
	cpu, commits, written                         float64 // seconds, number, bytes
	received, produces, metadatas, deliveredSoFar float64
}

func (s *sidecar) usage(ctx context.Context, dir string, b *brokers) (u usage, err error) {
	cpu, err := s.CPUTime()
	if err != nil {
		return u, err
	}
	u.at, u.cpu = time.Now(), cpu.Seconds()
	if u.commits, err = s.commits(ctx); err != nil {
		return u, err
	}
	if u.written, err = diskWritten(dir); err != nil {
		return u, err
	}
	u.received, u.deliveredSoFar = float64(b.received.Load()), float64(b.sent.Load())
	u.produces, u.metadatas = float64(b.produces.Load()), float64(b.metadatas.Load())
	return u, nil
}

// since is what was used in a second, and for a record.
func (u usage) since(before usage) map[string]float64 {
	seconds := u.at.Sub(before.at).Seconds()
	return map[string]float64{
		"cpu":      (u.cpu - before.cpu) / seconds * 1e3,
		"commits":  (u.commits - before.commits) / seconds,
		"written":  (u.written - before.written) / seconds / 1e3,
		"requests": (u.produces - before.produces) / seconds,
		"metadata": (u.metadatas - before.metadatas) / seconds,
		"wire":     (u.received - before.received) / (u.deliveredSoFar - before.deliveredSoFar),
	}
}

// diskWritten is what was written to the disk that holds dir, by whomever: what the
// kernel tells of a process counts whole folios of the page cache, which may be 256
// times what reaches the disk.
func diskWritten(dir string) (float64, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, fmt.Errorf("disk of %s: %w", dir, err)
	}
	const sectorsWritten, sectorBytes = 6, 512 // see Documentation/block/stat.rst of Linux
	name := fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev))
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("what was written to the disk: %w", err)
	}
	fields := strings.Fields(string(text))
	if len(fields) <= sectorsWritten {
		return 0, fmt.Errorf("%s has %d fields", name, len(fields))
	}
	n, err := strconv.ParseFloat(fields[sectorsWritten], 64)
	return n * sectorBytes, err
}
