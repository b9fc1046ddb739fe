package kafkasink

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

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

// A failed attempt costs one question, and one that succeeds costs none.
func TestFailureAsksForMetadata(t *testing.T) {
	b := startBrokers(t, 1)
	asked := b.questions()
	s := unhurried(openSink(t, b.ListenAddrs()))
	send(t, s, batch(1, `{"a":1}`))
	b.setAnswer(always(int16(kafka.NotEnoughReplicas)))
	const failures = 20
	for range failures {
		sendFails(t, s, batch(2, `{"a":2}`), sinks.Transient)
	}
	b.setAnswer(nil)
	send(t, s, batch(2, `{"a":2}`))
	for seq := range uint64(failures) {
		send(t, s, batch(3+seq, `{"a":3}`))
	}
	if got := asked.Load(); got != failures+1 {
		t.Errorf("the brokers were asked for metadata %d times, want %d: at the start, and after each failure", got, failures+1)
	}
}

// That a record is rejected hides no moved leader.
func TestLeaderMovesBesideRejection(t *testing.T) {
	b := startBrokers(t, 1, kfake.NumBrokers(3))
	s := openSink(t, b.ListenAddrs())
	send(t, s, batch(1, `{"p":0}`))
	b.moveLeader(t, 0)
	large := `{"p":"` + strings.Repeat("x", 2*defaultMaxBytes) + `"}`
	sendFails(t, s, batch(2, `{"p":0}`, large), sinks.Rejected)
	send(t, s, batch(2, `{"p":0}`))
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	b := startBrokers(t, 1, kfake.NumBrokers(3))
	s := unhurried(openSink(t, b.ListenAddrs()))
	send(t, s, batch(1, `{"a":1}`))
	ctx := context.Background()
	if err := s.cluster.refresh(ctx); err != nil {
		t.Errorf("refresh = %v, want nil", err)
	}
	b.cutConnections()
	if err := s.cluster.refresh(ctx); err != nil {
		t.Errorf("refresh over a connection that is gone = %v, want nil", err)
	}
	b.freezeConnections(true)
	s.cluster.refreshWait = refreshTimeout
	if err := s.cluster.refresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("refresh over a connection that hangs = %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestRefreshWithoutBrokers(t *testing.T) {
	b := startBrokers(t, 1)
	s := unhurried(openSink(t, b.ListenAddrs()))
	send(t, s, batch(1, `{"a":1}`))
	before := s.cluster.cached(context.Background())
	b.stop()
	if err := s.cluster.refresh(context.Background()); !errors.Is(err, errNotRefreshed) {
		t.Errorf("refresh = %v, want %v", err, errNotRefreshed)
	}
	if after := s.cluster.cached(context.Background()); !isSameAnswer(before, after) {
		t.Errorf("the transport knows %+v, want what it knew before: %+v", after, before)
	}
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

// What is known of brokers that all hang is not forgotten, and the first that answers
// again is found.
func TestAllBrokersHang(t *testing.T) {
	t.Parallel()
	b := startBrokers(t, 1, kfake.NumBrokers(3))
	s := openSink(t, b.ListenAddrs(), func(c *Config) { c.Timeout = config.Duration(500 * time.Millisecond) }).(*sink)
	sendUntilTaken(t, s, batch(1, `{"a":1}`))
	known := s.cluster
	b.freezeConnections(true)
	for range 2 {
		sendFails(t, s, batch(2, `{"a":2}`), sinks.Transient)
	}
	if s.cluster != known {
		t.Error("the cluster has been replaced by one that reaches no broker")
	}
	b.moveLeader(t, 0)
	b.freezeConnections(false)
	sendUntilTaken(t, s, batch(2, `{"a":2}`))
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
