package kafkasink

import (
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/fakekafka"
)

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
}

func TestConnectionsAgeInTransactions(t *testing.T) {
	b := fakekafka.Start(t, 1, 1, testTopic)
	e, o := resumed(t, b)
	send(t, e, batch(1, `{"a":1}`))
	sendOnNewConnections(t, e.sink, func() { send(t, e, batch(2, `{"a":2}`)) })
	wantCommitted(t, b, `{"a":1}`, `{"a":2}`)
	o.want(t, 3, 0, 0) // the first of them claims: the session lasts
}

// Where the configured brokers cannot be reached any more, what is known of the others does.
func TestOldConnectionsWithoutOthers(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs())
	send(t, s, batch(1, `{"a":1}`))
	k := s.(*sink)
	before := openConnections(k)
	k.cluster.until = time.Now()
	k.config.Brokers = []string{"127.0.0.1:1"}
	send(t, s, batch(2, `{"a":2}`))
	after := openConnections(k)
	for c := range before {
		if _, ok := after[c]; !ok {
			t.Error("a connection was closed that nothing has replaced")
		}
	}
	if !k.cluster.until.After(time.Now()) {
		t.Error("the next Send looks for brokers again")
	}
}
