// Package kafkatest runs a real Apache Kafka for a test: brokers of a pinned
// release on loopback that a test can kill and start again.
//
// The jars come from Maven Central by mvn, once, into a folder of the repository
// that git ignores. Without java or mvn a test is skipped, or fails when the
// environment says CI=true.
package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/freeport"
)

// stopTimeout is far beyond what an orderly stop takes. Three nodes need 7 s when
// nothing else runs, and more than 30 s on a machine that is busy.
const stopTimeout = 5 * time.Minute

// Cluster is a running Kafka. Its methods report what goes wrong through the
// test it was started for, and so belong on that test's goroutine.
type Cluster struct {
	t       testing.TB
	network Network
	nodes   []*node
}

// Network is where a cluster and its clients live.
type Network interface {
	// Command is a program there, with the files of the caller.
	Command(name string, args ...string) *exec.Cmd
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// machine is the network of this process.
type machine struct{ net.Dialer }

func (*machine) Command(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }

func (m *machine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return m.DialContext(ctx, network, address)
}

// Start formats and starts a cluster of one or three nodes and waits until every
// one of them serves. Topics of three nodes need two for a write with acks=all.
// The cluster and its data end with the test.
func Start(t testing.TB, nodes int) *Cluster {
	t.Helper()
	return start(t, Current, nodes, nil)
}

// StartRelease is Start of another release than Current.
func StartRelease(t testing.TB, release Release, nodes int) *Cluster {
	t.Helper()
	return start(t, release, nodes, nil)
}

// StartIn is Start of one node in another network, which listens at host there: at the ports
// 9092 and 9093.
func StartIn(t testing.TB, network Network, host string) *Cluster {
	t.Helper()
	return startAt(t, Current, network, []string{net.JoinHostPort(host, "9092")}, []string{net.JoinHostPort(host, "9093")}, nil)
}

func start(t testing.TB, release Release, nodes int, secure *secureProperties) *Cluster {
	t.Helper()
	if nodes != 1 && nodes != 3 {
		t.Fatalf("kafkatest: a cluster has 1 or 3 nodes, not %d", nodes)
	}
	addresses, err := freeport.Loopback(2 * nodes)
	if err != nil {
		t.Fatal(err)
	}
	return startAt(t, release, &machine{}, addresses[:nodes], addresses[nodes:], secure)
}

func startAt(t testing.TB, release Release, network Network, brokers, controllers []string, secure *secureProperties) *Cluster {
	t.Helper()
	libs, nodes := release.jars(t), len(brokers)
	voters := make([]string, nodes)
	for i, address := range controllers {
		voters[i] = fmt.Sprintf("%d@%s", i+1, address)
	}

	c := &Cluster{t: t, network: network}
	dir := t.TempDir()
	for i := range nodes {
		n, err := newNode(network.Command, libs, dir, properties{
			ID:         i + 1,
			Broker:     brokers[i],
			Controller: controllers[i],
			Voters:     strings.Join(voters, ","),
			Replicas:   nodes,
			MinInSync:  nodes/2 + 1,
			Secure:     secure,
		})
		if err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, n)
	}
	t.Cleanup(c.end)
	t.Logf("starting Kafka %s, %d node(s), on %s", release.version, nodes, strings.Join(brokers, ","))
	began := time.Now()
	if err := c.each((*node).start); err != nil {
		t.Fatal(err)
	}
	t.Logf("Kafka is ready after %.1f s", time.Since(began).Seconds())
	return c
}

// Brokers returns the addresses of all nodes, host:port, also of those that are
// down: a node keeps its address.
func (c *Cluster) Brokers() []string {
	brokers := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		brokers[i] = n.Broker
	}
	return brokers
}

// Kill ends node, from 1, with SIGKILL, and returns when it is gone.
func (c *Cluster) Kill(node int) {
	c.t.Helper()
	c.nodes[node-1].process.Kill()
	c.t.Logf("killed Kafka node %d", node)
}

// Restart starts node, from 1, which was killed or stopped, again on its data and
// its address, and returns when it serves.
func (c *Cluster) Restart(node int) {
	c.t.Helper()
	began := time.Now()
	if err := c.nodes[node-1].start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Logf("Kafka node %d is back after %.1f s", node, time.Since(began).Seconds())
}

// KillAll ends every node with SIGKILL, and returns when they are gone.
func (c *Cluster) KillAll() {
	c.t.Helper()
	for node := range c.nodes {
		c.Kill(node + 1)
	}
}

// RestartAll is Restart of every node, all at the same time: one alone of three does not
// serve.
func (c *Cluster) RestartAll() {
	c.t.Helper()
	began := time.Now()
	if err := c.each((*node).start); err != nil {
		c.t.Fatal(err)
	}
	c.t.Logf("Kafka is back after %.1f s", time.Since(began).Seconds())
}

// Freeze stops node, from 1, without ending it: it keeps its connections, and
// takes up what was sent to it meanwhile when Thaw lets it go on.
func (c *Cluster) Freeze(node int) {
	c.t.Helper()
	c.nodes[node-1].process.Signal(syscall.SIGSTOP)
	c.t.Logf("froze Kafka node %d", node)
}

// Thaw lets a frozen node, from 1, go on.
func (c *Cluster) Thaw(node int) {
	c.t.Helper()
	c.nodes[node-1].process.Signal(syscall.SIGCONT)
	c.t.Logf("Kafka node %d goes on", node)
}

// end kills what still runs: nobody needs the data any more. When the test has
// failed, the last words of every node go to its log.
func (c *Cluster) end() {
	for _, n := range c.nodes {
		if n.process == nil {
			continue
		}
		n.process.Kill()
		if c.t.Failed() {
			c.t.Logf("the last lines of Kafka node %d:\n%s", n.ID, n.process.Log().Tail(40))
		}
	}
}

// each calls do for all nodes at the same time and joins the errors.
func (c *Cluster) each(do func(*node) error) error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() { errs[i] = do(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
