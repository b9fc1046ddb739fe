package kafka

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kafkatest"
)

// TestTopicMissing starts docket with a topic that does not exist. An operator is
// told which, nobody else notices, and everything is delivered once it is there.
func TestTopicMissing(t *testing.T) {
	const n = 1000
	cluster := kafkatest.Start(t, 1)
	d := dockettest.New(t)
	d.Start(config(d, cluster, "stream"))
	var lines bytes.Buffer
	for i := range n {
		fmt.Fprintf(&lines, `{"stream":%d,"number":%d}`+"\n", i%10, i)
	}
	d.Send(lines.Bytes())

	d.Await("the missing topic to be reported", deliverTimeout, func(s dockettest.Status) error {
		sink := s.Sink("bus")
		if sink.State != "Error" || sink.Reason != "Misconfigured" || !strings.Contains(sink.LastError, topic) {
			return fmt.Errorf("sink bus is %+v, want Error, Misconfigured and a text that names the topic %s", sink, topic)
		}
		if other := s.Ledger.Sinks["copy"]; other.Delivered != n {
			return fmt.Errorf("sink copy has delivered %d of %d", other.Delivered, n)
		}
		return nil
	})
	if err := d.Ready(); err != nil {
		t.Errorf("docket is not ready while a topic is missing: %v", err)
	}

	cluster.CreateTopic(topic, 3, 1)
	status := d.Await("the sink to recover", deliverTimeout, delivered(n))
	ids := make(map[string]bool)
	values := make(map[string]bool)
	records := cluster.ReadAll(topic)
	for _, r := range records {
		id, _ := header(r, "docket-id")
		ids[id] = true
		values[string(r.Value)] = true
	}
	lost := 0
	for line := range bytes.Lines(lines.Bytes()) {
		if !values[string(bytes.TrimSpace(line))] {
			lost++
		}
	}
	if lost > 0 || len(ids) != n || status.Ledger.Received != n {
		t.Errorf("got %d ids, %d received, %d lost; want %d, %d, 0", len(ids), status.Ledger.Received, lost, n, n)
	}
	d.Stop()
	t.Logf("summary: sent %d, acknowledged %d, read back %d, duplicates %d, lost %d", n, n, len(records), len(records)-len(ids), lost)
}
