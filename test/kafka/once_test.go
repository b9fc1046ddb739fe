package kafka

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/docket-export/docket/decision/once"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kafkatest"
)

// TestEffectivelyOnce shows the whole way from the producers to a consumer's
// output: while brokers, docket and the consumer are killed, every record that was
// sent reaches the output once. Redeliveries are in the topic, or the test would
// show nothing, and the consumer drops exactly these. What is replayed at the end
// reaches it again.
func TestEffectivelyOnce(t *testing.T) {
	cluster := kafkatest.Start(t, 3)
	cluster.CreateTopic(topic, 3, 3)
	d := dockettest.New(t)
	config := config(d, cluster, "key")
	d.Start(config)
	c := startConsumer(t, cluster)
	l := startLoad(t, d)
	for partition := range int32(3) {
		killLeader(cluster, partition, d, config, c)
	}
	sent, acknowledged := l.stop(t)
	if sent != acknowledged {
		t.Errorf("%d records were sent and %d acknowledged by the end", sent, acknowledged)
	}
	status := d.Await("everything to be delivered", deliverTimeout, delivered(sent))
	const replayed = 1000
	d.Run("replay", "-f", d.ConfigFile(), "--sink", "bus", "--from", strconv.Itoa(sent-replayed+1))
	d.Await("the replay to be delivered", deliverTimeout, delivered(sent))
	d.Stop()

	inTopic := readTopic(t, cluster, status.Queue.ID)
	if inTopic.late < replayed {
		t.Errorf("%d records are marked as late, want the %d that were replayed", inTopic.late, replayed)
	}
	checkOutput(t, c, l, inTopic)
	checkExport(t, d.ExportDirectory(), l)
}

// killLeader kills the node that leads a partition, and docket and the consumer
// with it, docket again while the others lead and once more when the node is
// back.
func killLeader(cluster *kafkatest.Cluster, partition int32, d *dockettest.Docket, config string, c *consumer) {
	d.Await("some delivery", deliverTimeout, more(d, 4000))
	leader := cluster.Leader(topic, partition)
	cluster.Kill(leader)
	killDocket(d, config)
	c.restart()
	d.Await("some delivery without the leader", deliverTimeout, more(d, 2000))
	killDocket(d, config)
	cluster.Restart(leader)
	killDocket(d, config)
	c.restart()
}

// killDocket kills docket, wherever it is, and starts it again.
func killDocket(d *dockettest.Docket, config string) {
	d.Kill()
	d.Start(config)
}

// checkOutput compares what the consumer has written, once it is done, with what
// was sent: each line once, and those that were replayed as often as they are in
// the topic.
func checkOutput(t *testing.T, c *consumer, l *load, inTopic topicLines) {
	t.Helper()
	lines, dropped := c.finish()
	different := make(map[string]bool)
	for _, line := range lines {
		different[line] = true
	}
	lost := l.missing(different)
	doubled := len(lines) - inTopic.late - len(different)
	t.Logf("summary: sent %d, acknowledged %d, seen %d (%d of them replayed), duplicates %d before the filter and %d after it, lost %d",
		l.sent(), l.acknowledged(), inTopic.records, inTopic.late, inTopic.duplicates, doubled, len(lost))
	if len(lost) > 0 || len(different) != l.sent() {
		t.Errorf("the consumer has %d different lines, want %d; the first missing ones: %v", len(different), l.sent(), lost[:min(len(lost), 10)])
	}
	if doubled != 0 {
		t.Errorf("the consumer has %d lines, %d too many", len(lines), doubled)
	}
	if inTopic.duplicates == 0 || dropped != inTopic.duplicates {
		t.Errorf("the consumer has dropped %d redeliveries, and %d are in the topic; want the same number, and some", dropped, inTopic.duplicates)
	}
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

// checkOnce lets records through filters, one for each partition. Each line must
// come out once, late for the reason that is given by its number, or else in
// order. It returns how many lines are missing.
func checkOnce(t *testing.T, records []*kgo.Record, lines []string, late map[int]once.Late) (lost int) {
	t.Helper()
	filters := make(map[int32]*once.Filter)
	taken := make(map[string]int)
	for _, r := range records {
		d, err := once.ParseHeaders(r.Headers, func(h kgo.RecordHeader) (string, []byte) { return h.Key, h.Value })
		if err != nil {
			t.Fatalf("partition %d, offset %d: %v", r.Partition, r.Offset, err)
		}
		if want := late[int(d.Seq)]; d.Late != want {
			t.Errorf("seq %d: header docket-late is %q, want %q", d.Seq, d.Late, want)
		}
		if filters[r.Partition] == nil {
			filters[r.Partition] = &once.Filter{LateMemory: 10}
		}
		if filters[r.Partition].Take(d) {
			taken[string(r.Value)]++
		}
	}
	for i, text := range lines {
		if taken[text] != 1 {
			t.Errorf("line %d is taken %d times, want once", i+1, taken[text])
		}
		if taken[text] == 0 {
			lost++
		}
	}
	if len(taken) != len(lines) {
		t.Errorf("%d different lines are taken, want %d", len(taken), len(lines))
	}
	return lost
}
