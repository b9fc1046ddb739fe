package fakekafka

import (
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cluster is a cluster of brokers on real sockets. The first broker has number 0.
type Cluster struct {
	*kfake.Cluster
	done chan struct{} // closed when the test is over

	mu         sync.Mutex
	counts     map[kmsg.Key]int           // requests of each kind that were judged
	faults     map[Point]*fault           // those to come
	late       []*lateRequest             // requests of connections that are gone
	conns      map[*conn]struct{}         // open
	dead       map[string]bool            // clients that have died
	stopped    map[string]chan struct{}   // clients that are stopped; closed when they go on
	died       map[string]func()          // told of the end of a client
	interrupts map[string]func()          // told that a client is interrupted
	aliases    map[string]string          // what kfake knows a transactional id by
	commits    map[string]*preparedCommit // by transactional id, as kfake knows it
	hidden     map[string]*hiddenOffsets  // by group
	refused    []byte                     // no batch with it is taken
}

// Start starts brokers with topics of some partitions each.
func Start(t testing.TB, brokers int, partitions int32, topics ...string) *Cluster {
	t.Helper()
	c := &Cluster{
		done:       make(chan struct{}),
		counts:     map[kmsg.Key]int{},
		faults:     map[Point]*fault{},
		conns:      map[*conn]struct{}{},
		dead:       map[string]bool{},
		stopped:    map[string]chan struct{}{},
		died:       map[string]func(){},
		interrupts: map[string]func(){},
		aliases:    map[string]string{},
		commits:    map[string]*preparedCommit{},
		hidden:     map[string]*hiddenOffsets{},
	}
	k, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.SeedTopics(partitions, topics...), kfake.ListenFn(c.listen))
	if err != nil {
		t.Fatalf("start brokers: %v", err)
	}
	c.Cluster = k
	t.Cleanup(k.Close)
	t.Cleanup(c.end)
	return c
}

// end lets requests go that are held back, and cuts connections.
func (c *Cluster) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.done)
	for conn := range c.conns {
		conn.Conn.Close()
	}
}

func (c *Cluster) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return &listener{Listener: l, cluster: c}, err
}

type listener struct {
	net.Listener
	cluster *Cluster
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &conn{Conn: raw, cluster: l.cluster}
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	l.cluster.conns[conn] = struct{}{}
	return conn, nil
}

// Counts are how many requests of each kind have been judged: the points at which a fault
// could have been.
func (c *Cluster) Counts() map[kmsg.Key]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := make(map[kmsg.Key]int, len(c.counts))
	for key, n := range c.counts {
		counts[key] = n
	}
	return counts
}
