package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/fakekafka"
	"github.com/docket-export/docket/sinks"
)

// A moved leader costs one attempt, and no record is there twice.
func TestLeaderMoves(t *testing.T) {
	b := startBrokers(t, 1, kfake.NumBrokers(3))
	s := unhurried(openSink(t, b.ListenAddrs()))
	send(t, s, batch(1, `{"n":0}`))
	want := []string{`{"n":0}`}
	for i := 1; i <= 6; i++ {
		b.moveLeader(t, 0)
		record := fmt.Sprintf(`{"n":%d}`, i)
		want = append(want, record)
		sendFails(t, s, batch(uint64(i+1), record), sinks.Transient, "[6]")
		send(t, s, batch(uint64(i+1), record))
	}
	if got := b.values(t, 0); !slices.Equal(got, want) {
		t.Errorf("the topic holds %q, want %q", got, want)
	}
}

// moveLeader has the next broker lead a partition.
func (b *brokers) moveLeader(t *testing.T, partition int32) {
	t.Helper()
	brokers := int32(len(b.ListenAddrs()))
	if err := b.MoveTopicPartition(testTopic, partition, (b.LeaderFor(testTopic, partition)+1)%brokers); err != nil {
		t.Fatal(err)
	}
}

// reserved is an address that nobody listens on but who asks for it by its port: a
// connection keeps the system from giving the port away.
func reserved(t *testing.T) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return l.Addr().(*net.TCPAddr)
}

// Brokers that all hang hold up a Send for the time of a request or two, however many partitions there are.
func TestHungBrokersAreNotAllWaitedFor(t *testing.T) {
	t.Parallel()
	const partitions = 4 * maxInFlight
	b := startBrokers(t, partitions)
	s := openSink(t, b.ListenAddrs(), func(c *Config) {
		c.Timeout, c.Partitioner = config.Duration(500*time.Millisecond), RoundRobin
	})
	sendUntilTaken(t, s, batch(1, `{}`))
	b.freezeConnections(true)
	b.mu.Lock()
	b.dialed = 0
	b.mu.Unlock()
	sendFails(t, s, batch(2, slices.Repeat([]string{`{}`}, partitions)...), sinks.Transient)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dialed > maxInFlight {
		t.Errorf("%d requests got a connection, want at most %d: the others come too late", b.dialed, maxInFlight)
	}
}

// A request that was given up may still be read: what is sent next must not be
// written over it.
func TestGivenUpRequestKeepsItsBytes(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs()).(*sink)
	send(t, s, batch(1, `{"a":1}`))
	b.setLoseAnswer(true)
	for range 20 { // a pool may lose things, or keep them back
		set := &recordSet{}
		s.sets.Put(set)
		sendFails(t, s, batch(2, `{"a":2}`), sinks.Transient)
		if next, _ := s.sets.Get().(*recordSet); next == set && len(set.bytes) > 0 {
			t.Fatal("the bytes of a request that was given up are used again, want them left alone")
		}
	}
}

// silent listens and never answers. Every connection is reported when something has
// come over it, and when the client has closed it.
func silent(t *testing.T) (address string, reached, closed <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	begins, ends := make(chan struct{}, 100), make(chan struct{}, 100)
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				c.Read(make([]byte, 1))
				begins <- struct{}{}
				io.Copy(io.Discard, c)
				ends <- struct{}{}
			})
		}
	})
	t.Cleanup(func() { l.Close() }) // the sink, opened later, is closed earlier
	return l.Addr().String(), begins, ends
}

func TestCloseCutsConnections(t *testing.T) {
	address, reached, closed := silent(t)
	s := openSink(t, []string{address}, func(c *Config) { c.Timeout = config.Duration(time.Minute) })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sent := make(chan error, 1)
	go func() { sent <- s.Send(ctx, batch(1, `{"a":1}`)) }()
	select {
	case <-reached:
	case <-time.After(await.Left(t)):
		t.Error("no request comes")
	}
	cancel()
	if err := <-sent; !errors.Is(err, context.Canceled) {
		t.Errorf("Send = %v, want the caller's own %v", err, context.Canceled)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(await.Left(t)):
		t.Error("the connection stays open after Close")
	}
}

// questions counts the requests for metadata.
func (b *brokers) questions() *atomic.Int64 {
	var n atomic.Int64
	b.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return &n
}

// The transport asks once within metadataTTL, and no batch asks besides.
func TestMetadataAreSeldomAskedFor(t *testing.T) {
	b := startBrokers(t, 3)
	asked := b.questions()
	opened := openSink(t, b.ListenAddrs())
	if got := opened.(*sink).cluster.transport.MetadataTTL; got != metadataTTL {
		t.Errorf("the transport asks for metadata within %v, want %v", got, metadataTTL)
	}
	s := unhurried(opened)
	for seq := range uint64(50) {
		send(t, s, batch(1+seq, `{"a":1}`))
	}
	if got := asked.Load(); got != 1 {
		t.Errorf("the brokers were asked for metadata %d times, want once", got)
	}
}

// That a record is rejected hides no moved leader.
func TestLeaderMovesBesideRejection(t *testing.T) {
	b := startBrokers(t, 2, kfake.NumBrokers(3))
	s := unhurried(openSink(t, b.ListenAddrs(), func(c *Config) { c.Partitioner = RoundRobin }))
	send(t, s, batch(1, `{}`, `{}`))
	b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
		if strings.Contains(string(req.Topics[0].Partitions[0].Records), "bad") {
			return answerCode(req, 87)
		}
		return nil
	})
	b.moveLeader(t, 1)
	sendFails(t, s, batch(3, `{}`, `{"bad":4}`), sinks.Rejected)
	send(t, s, batch(3, `{}`))
}

// Where a broker hangs, others are asked who leads now.
func TestBrokerHangs(t *testing.T) {
	t.Parallel()
	b := startBrokers(t, 1, kfake.NumBrokers(3))
	s := openSink(t, b.ListenAddrs(), func(c *Config) { c.Timeout = config.Duration(500 * time.Millisecond) })
	sendUntilTaken(t, s, batch(1, `{"a":1}`)) // not at the first attempt where the machine is slow
	b.freezeConnections(false)
	b.moveLeader(t, 0)
	sendFails(t, s, batch(2, `{"a":2}`), sinks.Transient)
	sendUntilTaken(t, s, batch(2, `{"a":2}`))
	if got := b.stored(t)[0]; got != 2 {
		t.Errorf("the topic holds %d messages, want 2", got)
	}
}

// All brokers go and come back: nothing is to be waited for then.
func TestBrokersRestart(t *testing.T) {
	at := reserved(t)
	b := startBrokers(t, 1, kfake.Ports(at.Port))
	s := openSink(t, b.ListenAddrs())
	send(t, s, batch(1, `{"a":1}`))
	b.stop()
	for range 3 {
		sendFails(t, s, batch(2, `{"a":2}`), sinks.Transient)
	}
	again := startBrokers(t, 1, kfake.Ports(at.Port))
	// These know neither the records nor their producer. Before they say so, a slow machine may miss them once more.
	await.Until(t, "the brokers to tell that they do not know the records", func() bool {
		return strings.Contains(sendFails(t, s, batch(2, `{"a":2}`), sinks.Transient).Error(), "[45]")
	})
	send(t, s, batch(2, `{"a":2}`))
	if got := again.stored(t)[0]; got != 1 {
		t.Errorf("the topic holds %d messages, want 1", got)
	}
}

// openConnections counts the connections of the sink's cluster.
func openConnections(s *sink) map[*conn]struct{} {
	s.cluster.dialer.mu.Lock()
	defer s.cluster.dialer.mu.Unlock()
	all := map[*conn]struct{}{}
	for c := range s.cluster.dialer.open {
		all[c] = struct{}{}
	}
	return all
}

// sendOnNewConnections calls send when the connections of s are old.
func sendOnNewConnections(t *testing.T, s *sink, send func()) {
	t.Helper()
	before := openConnections(s)
	s.cluster.until = time.Now()
	send()
	for c := range openConnections(s) {
		if _, ok := before[c]; ok {
			t.Error("an old connection is used")
		}
	}
	if !s.cluster.until.After(time.Now()) {
		t.Error("the new connections are old")
	}
}

// Connections are not used for ever: the addresses of brokers may have changed. What is sent
// meanwhile arrives once.
func TestConnectionsAge(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs())
	send(t, s, batch(1, `{"a":1}`))
	sendOnNewConnections(t, s.(*sink), func() { send(t, s, batch(2, `{"a":2}`)) })
	if got := strings.Join(b.values(t, 0), " "); got != `{"a":1} {"a":2}` {
		t.Errorf("the topic holds %s", got)
	}

	// Where the configured brokers cannot be reached any more, what is known of the others does.
	k := s.(*sink)
	known := k.cluster
	k.cluster.until, k.config.Brokers = time.Time{}, []string{"127.0.0.1:1"}
	send(t, s, batch(3, `{"a":3}`))
	if k.cluster != known || !known.until.After(time.Now()) {
		t.Error("the cluster has been replaced by one that reaches no broker, or the next Send looks for brokers again")
	}
}

func TestConnectionsAgeInTransactions(t *testing.T) {
	b := fakekafka.Start(t, 1, 1, testTopic)
	e, o := resumed(t, b)
	send(t, e, batch(1, `{"a":1}`))
	sendOnNewConnections(t, e.sink, func() { send(t, e, batch(2, `{"a":2}`)) })
	wantCommitted(t, b, `{"a":1}`, `{"a":2}`)
	o.want(t, 3, 0, 0) // the first of them claims: the session lasts
}
