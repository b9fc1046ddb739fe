package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
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

func TestBrokersComeLater(t *testing.T) {
	at := reserved(t)
	s := openSink(t, []string{at.String()})
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Transient, "connection refused", at.String())

	b := startBrokers(t, 1, kfake.Ports(at.Port))
	send(t, s, batch(1, `{"a":1}`))
	if got, want := b.values(t, 0), []string{`{"a":1}`}; !slices.Equal(got, want) {
		t.Errorf("the topic holds %q, want %q", got, want)
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

func TestSecondBrokerIsAsked(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, []string{"127.0.0.1:1", b.ListenAddrs()[0]})
	send(t, s, batch(1, `{"a":1}`))
}

func TestMorePartitionsThanSlots(t *testing.T) {
	const partitions = 3 * maxInFlight
	b := startBrokers(t, partitions)
	s := openSink(t, b.ListenAddrs(), withKey("n"))
	var records []string
	for i := range 500 {
		records = append(records, fmt.Sprintf(`{"n":%d}`, i))
	}
	send(t, s, batch(1, records...))
	total := 0
	for p := range partitions {
		total += len(b.held(t, p))
	}
	if total != 500 {
		t.Errorf("the topic holds %d messages, want 500", total)
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
