package kafka

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kafkatest"
)

var (
	chaosFor  = flag.Duration("chaos", 0, "how long TestChaos goes on for each mode of delivery; 0: ExactlyOnce alone, with each fault once")
	chaosSeed = flag.Uint64("seed", 0, "of the faults of TestChaos; 0: another one each time")
)

// mode is a way of delivery.
type mode struct {
	name  string
	keys  string // of the section kafka
	exact bool   // nothing may be there twice
}

var (
	notIdempotent = mode{name: "AtLeastOnce, idempotence Off", keys: "idempotence: Off"}
	idempotent    = mode{name: "AtLeastOnce", keys: "delivery: AtLeastOnce"}
	exactlyOnce   = mode{name: "ExactlyOnce", keys: "delivery: ExactlyOnce", exact: true}
)

// TestChaos kills and freezes brokers and docket at random, and lets a copy of docket's
// queue come back to life, while producers stream. Consumers that know nothing of docket
// read what is committed: every acknowledged line must be there, in order for each key,
// and with ExactlyOnce once.
func TestChaos(t *testing.T) {
	modes := []mode{exactlyOnce}
	if *chaosFor > 0 {
		modes = []mode{notIdempotent, idempotent, exactlyOnce}
	}
	seed := seed()
	var table []string
	for _, m := range modes {
		t.Run(strings.ReplaceAll(m.name, ", ", "-"), func(t *testing.T) {
			table = append(table, newChaos(t, kafkatest.Current, 3, m, seed).run(allFaults, *chaosFor))
		})
	}
	t.Logf("%s\n%s\n%s", chaosColumns, strings.Repeat("|---", strings.Count(chaosColumns, "|")-1)+"|", strings.Join(table, "\n"))
}

// TestChaosEarlierRelease is the same on one broker of Kafka 3.9.
func TestChaosEarlierRelease(t *testing.T) {
	row := newChaos(t, kafkatest.V3, 1, exactlyOnce, seed()).run([]string{killNode1, freezeNode, killOften, zombie}, 0)
	t.Logf("%s\n%s", chaosColumns, row)
}

// seed is that of the flag, or another one each time.
func seed() uint64 {
	if *chaosSeed != 0 {
		return *chaosSeed
	}
	return uint64(time.Now().UnixNano())
}

// Faults of brokers.
const (
	killNode1       = "kill node 1"
	killNode2       = "kill node 2"
	killNode3       = "kill node 3"
	killController  = "kill the controller"
	killCoordinator = "kill the coordinator"
	killAll         = "kill all nodes"
	freezeNode      = "freeze a node"
	electLeaders    = "elect leaders"
)

// Faults of docket.
const (
	killDocketOnce = "kill docket"
	freezeDocket   = "freeze docket"
	freezeLong     = "freeze docket beyond its transaction"
	killOften      = "kill docket five times"
	zombie         = "a copy that takes over"
	oldCopy        = "an old copy"
)

var (
	allFaults = []string{killNode1, killNode2, killNode3, killController, killCoordinator, killAll, freezeNode, electLeaders, killOften, zombie, oldCopy}
	// longFaults take minutes.
	longFaults = []string{freezeLong}
)

// chaos is one installation of docket, and of Kafka, in which much goes wrong.
type chaos struct {
	t       *testing.T
	random  *rand.Rand
	mode    mode
	cluster *kafkatest.Cluster
	d       *dockettest.Docket
	config  string
	count   map[string]int // faults, by name
}

func newChaos(t *testing.T, release kafkatest.Release, nodes int, m mode, seed uint64) *chaos {
	t.Helper()
	t.Logf("the faults are those of -seed %d", seed)
	c := &chaos{
		t: t, mode: m, random: rand.New(rand.NewPCG(seed, 0)), count: make(map[string]int),
		cluster: kafkatest.StartRelease(t, release, nodes),
		d:       dockettest.New(t),
	}
	c.cluster.CreateTopic(topic, 3, nodes)
	c.config = c.configOf(c.d)
	return c
}

// configOf is a configuration of a docket that keeps only what is not delivered yet.
func (c *chaos) configOf(d *dockettest.Docket) string {
	return fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: webhook
  unix: {path: %q}
queue: {directory: %q}
sinks:
- name: bus
  retry: {initialBackoff: 100ms, maxBackoff: 1s}
  kafka: {brokers: [%s], topic: %s, key: [key], timeout: %s, %s}
`, d.Socket, queueDirectory(d), strings.Join(c.cluster.Brokers(), ", "), topic, brokerTimeout, c.mode.keys)
}

// group is the name of the group that has the position, and of the transactional id.
func group(s dockettest.Status) string { return "docket-" + s.Queue.ID + "-bus" }

func queueDirectory(d *dockettest.Docket) string { return filepath.Join(d.Dir, "queue") }

// run deals out every fault, and goes on with that for a time. It returns a line of the
// table.
func (c *chaos) run(faults []string, atLeast time.Duration) string {
	c.t.Helper()
	r := startReaders(c.t, c.cluster, topic, 3)
	c.d.Start(c.config)
	l := startLoad(c.t, c.d)
	if atLeast > 0 {
		faults = slices.Concat(faults, faults, longFaults)
	}
	began := time.Now()
	for once := false; !once || time.Since(began) < atLeast; once = true {
		for _, i := range c.random.Perm(len(faults)) {
			c.d.Await("some delivery", deliverTimeout, more(c.d, 1000))
			c.fault(faults[i])
		}
	}
	lasted := time.Since(began)
	sent, acknowledged := l.stop(c.t)
	if sent != acknowledged {
		c.t.Errorf("%d lines were sent and %d acknowledged by the end", sent, acknowledged)
	}
	status := c.d.Await("everything to be delivered", deliverTimeout, nothingPending)
	if n := status.Ledger.Stored; n != uint64(sent) {
		c.t.Errorf("%d lines were sent and %d records are stored", sent, n)
	}
	if c.mode.exact {
		if next := c.cluster.CommittedOffset(group(status), topic, 0); next != int64(status.Queue.LastSeq)+1 {
			c.t.Errorf("the position in Kafka is %d, want the one after seq %d", next, status.Queue.LastSeq)
		}
	}
	c.d.Stop()
	r.finish(c.t, c.cluster, topic)
	console := readConsole(c.t, c.cluster, topic, r.franz.got)
	c.check("franz-go", r.franz, l)
	c.check("console consumer", console, l)
	if lost := r.segmentio.lost(l); len(lost) > 0 {
		c.t.Errorf("consumer of kafka-go: %d lines are lost; the first: %v", len(lost), lost[:min(len(lost), 10)])
	}
	return c.row(lasted, acknowledged, l, r, console)
}

// check compares what a consumer has got with what was acknowledged.
func (c *chaos) check(consumer string, got *tally, l *load) {
	c.t.Helper()
	lost, twice := got.lost(l), got.twice()
	c.t.Logf("consumer %s: %d lines, %d twice, %d lost; %d messages read again", consumer, got.got, twice, len(lost), got.reread)
	if len(lost) > 0 {
		c.t.Errorf("consumer %s: %d lines are lost; the first: %v", consumer, len(lost), lost[:min(len(lost), 10)])
	}
	if c.mode.exact && twice > 0 {
		c.t.Errorf("consumer %s: %d lines are there twice", consumer, twice)
	}
	got.wrong.report(c.t)
}

const chaosColumns = "| mode | minutes | docket killed, frozen, copied | brokers killed, frozen | acknowledged | lost | twice | shown twice by kafka-go's Reader |"

func (c *chaos) row(lasted time.Duration, acknowledged int, l *load, r *readers, console *tally) string {
	n := c.count
	c.t.Logf("faults: %v", slices.Sorted(maps.Keys(n)))
	kills := n[killNode1] + n[killNode2] + n[killNode3] + n[killController] + n[killCoordinator] + n[killAll]*len(c.cluster.Brokers())
	return fmt.Sprintf("| %s | %.1f | %d, %d, %d | %d, %d | %d | %d | %d | %d |", c.mode.name, lasted.Minutes(),
		n[killDocketOnce], n[freezeDocket]+n[freezeLong], n[zombie]+n[oldCopy], kills, n[freezeNode],
		acknowledged, len(console.lost(l)), console.twice(), r.segmentio.twice())
}

// fault lets a fault strike, others of docket meanwhile, and mends it.
func (c *chaos) fault(name string) {
	c.count[name]++
	c.t.Logf("fault: %s", name)
	switch name {
	case killNode1, killNode2, killNode3:
		c.killNode(int(name[len(name)-1] - '0'))
	case killController:
		c.killNode(c.cluster.Controller())
	case killCoordinator:
		c.killNode(c.cluster.TransactionCoordinator(group(c.d.Status())))
	case killAll:
		c.cluster.KillAll()
		c.meanwhile()
		c.cluster.RestartAll()
	case freezeNode:
		node := 1 + c.random.IntN(len(c.cluster.Brokers()))
		c.cluster.Freeze(node)
		c.meanwhile()
		c.pause(4 * time.Second)
		c.cluster.Thaw(node)
	case electLeaders:
		c.cluster.ElectLeaders()
		c.meanwhile()
	case freezeLong:
		c.d.Freeze()
		time.Sleep(transactionTimeout + 20*time.Second)
		c.d.Thaw()
	case killOften:
		for range 5 {
			c.killDocket()
			c.pause(time.Second)
		}
	case zombie:
		c.zombie()
	case oldCopy:
		c.oldCopy()
	}
}

// transactionTimeout is after how long without its end brokers abort a transaction of
// docket, at the next look that they take each ten seconds.
const transactionTimeout = time.Minute

func (c *chaos) killNode(node int) {
	c.cluster.Kill(node)
	c.meanwhile()
	c.cluster.Restart(node)
}

// pause is a random time of at most so much, in which things go on as they are.
func (c *chaos) pause(most time.Duration) {
	time.Sleep(time.Duration(c.random.Int64N(int64(most))))
}

// meanwhile lets up to three faults of docket strike one after the other.
func (c *chaos) meanwhile() {
	c.pause(time.Second)
	for range c.random.IntN(4) {
		if c.random.IntN(3) == 0 {
			c.count[freezeDocket]++
			c.d.Freeze()
			c.pause(2 * brokerTimeout)
			c.d.Thaw()
		} else {
			c.killDocket()
		}
		c.pause(2 * time.Second)
	}
}

func (c *chaos) killDocket() {
	c.count[killDocketOnce]++
	c.d.Kill()
	c.d.Start(c.config)
}

// zombie starts a second docket on a copy of the queue. The one that starts later wins:
// the second one, until the first starts again.
func (c *chaos) zombie() {
	c.d.Freeze()
	other := c.copy()
	other.Start(c.configOf(other))
	other.Await("the copy to deliver everything it has", deliverTimeout, nothingPending)
	c.d.Thaw()
	if !c.mode.exact {
		other.Kill()
		return
	}
	c.awaitError(c.d, "Fenced")
	c.killDocket()
	c.d.Await("some delivery", deliverTimeout, more(c.d, 1000))
	// It has the next number of the queue, as a line of the first docket, and must not be delivered.
	other.Send([]byte(`{"from":"the zombie"}` + "\n"))
	c.awaitError(other, "Fenced")
	other.Kill()
}

// oldCopy starts a second docket on a copy of the queue that lacks what has been delivered
// since, and has nothing new. With ExactlyOnce it takes over until the first starts again.
func (c *chaos) oldCopy() {
	c.d.Freeze()
	other := c.copy()
	c.d.Thaw()
	copied := c.d.Status().Queue.LastSeq // at most: it may lie behind a long backlog
	c.d.Await("delivery beyond the copy", deliverTimeout, func(s dockettest.Status) error {
		if got := s.Ledger.Sinks["bus"].Delivered; got <= copied {
			return fmt.Errorf("sink bus has delivered %d of the %d records that the copy may have, and one more is wanted; it is %+v", got, copied, s.Sink("bus"))
		}
		return nil
	})
	other.Start(c.configOf(other))
	other.Await("the copy to deliver everything it has", deliverTimeout, nothingPending)
	if !c.mode.exact {
		other.Kill()
		return
	}
	c.awaitError(c.d, "Fenced")
	other.Kill()
	c.killDocket()
	c.d.Await("some delivery behind the copy", deliverTimeout, more(c.d, 1000))
}

// copy is another docket, which has a copy of the queue of the first one, a frozen one: one
// level of files.
func (c *chaos) copy() *dockettest.Docket {
	c.t.Helper()
	other := dockettest.New(c.t)
	from, to := queueDirectory(c.d), queueDirectory(other)
	files, err := os.ReadDir(from)
	if err == nil {
		err = os.Mkdir(to, 0o700)
	}
	for _, file := range files {
		if err != nil || !file.Type().IsRegular() { // a socket is the docket's own
			continue
		}
		var text []byte
		if text, err = os.ReadFile(filepath.Join(from, file.Name())); err == nil {
			err = os.WriteFile(filepath.Join(to, file.Name()), text, 0o600)
		}
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return other
}

// awaitError waits until a docket says that its sink must not go on, and why. It stays ready.
func (c *chaos) awaitError(d *dockettest.Docket, reason string) {
	c.t.Helper()
	d.Await("sink bus to be "+reason, deliverTimeout, func(s dockettest.Status) error {
		if sink := s.Sink("bus"); sink.State != "Error" || sink.Reason != reason {
			return fmt.Errorf("sink bus is %+v, want Error and %s", sink, reason)
		}
		return nil
	})
	if err := d.Ready(); err != nil {
		c.t.Errorf("docket is not ready while its sink is %s: %v", reason, err)
	}
}

func nothingPending(s dockettest.Status) error {
	if n := s.Ledger.Sinks["bus"].Pending; n > 0 {
		return fmt.Errorf("sink bus has %d records pending; it is %+v", n, s.Sink("bus"))
	}
	return active(s)
}

// more returns nil once the sink bus has delivered n records more than now.
func more(d *dockettest.Docket, n uint64) func(dockettest.Status) error {
	want := d.Status().Ledger.Sinks["bus"].Delivered + n
	return func(s dockettest.Status) error {
		if got := s.Ledger.Sinks["bus"].Delivered; got < want {
			return fmt.Errorf("sink bus has delivered %d, want %d; it is %+v", got, want, s.Sink("bus"))
		}
		return nil
	}
}

func active(s dockettest.Status) error {
	if sink := s.Sink("bus"); sink.State != "Active" {
		return fmt.Errorf("sink bus is %+v, want Active", sink)
	}
	return nil
}
