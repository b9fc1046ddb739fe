package kafka

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kafkatest"
)

// TestSmoke is what the gate asks of Kafka: one broker that is killed once, the samples of
// real engines, and both deliveries. No line is lost, and none is there twice.
func TestSmoke(t *testing.T) {
	cluster := kafkatest.Start(t, 1)
	topics := map[string]string{"bus": "decisions", "once": "decisions-once"}
	for _, topic := range topics {
		cluster.CreateTopic(topic, 3, 1)
	}
	d := dockettest.New(t)
	d.Start(fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: webhook
  unix: {path: %q}
queue: {directory: %q}
sinks:
- name: bus
  retry: {initialBackoff: 100ms, maxBackoff: 1s}
  kafka: {brokers: %[3]q, topic: decisions}
- name: once
  retry: {initialBackoff: 100ms, maxBackoff: 1s}
  kafka: {brokers: %[3]q, topic: decisions-once, delivery: ExactlyOnce}
`, d.Socket, filepath.Join(d.Dir, "queue"), cluster.Brokers()))

	text := samples(t)
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	sent := 0
	send := func() {
		d.Send(text)
		sent += len(lines)
	}
	allDelivered := func(s dockettest.Status) error {
		for name := range topics {
			if n := s.Ledger.Sinks[name].Delivered; n != uint64(sent) {
				return fmt.Errorf("sink %s has delivered %d of %d", name, n, sent)
			}
		}
		return nil
	}
	send()
	d.Await("the samples to be delivered", deliverTimeout, allDelivered)
	cluster.Kill(1)
	send()
	d.Await("both sinks to notice that the broker is gone", deliverTimeout, func(s dockettest.Status) error {
		for name := range topics {
			if sink := s.Sink(name); sink.State == "Active" {
				return fmt.Errorf("sink %s is %+v", name, sink)
			}
		}
		return nil
	})
	cluster.Restart(1)
	send()
	d.Await("everything to be delivered", deliverTimeout, allDelivered)
	d.Stop()

	for name, topic := range topics {
		seen := make(map[int]int)
		var wrong problems
		for _, r := range cluster.ReadAll(topic) {
			text, _ := header(r, "docket-seq")
			seq, err := strconv.Atoi(text)
			if err != nil || seq < 1 || seq > sent || !bytes.Equal(r.Value, lines[(seq-1)%len(lines)]) {
				wrong.addf("header docket-seq is %q of %s", text, r.Value)
				continue
			}
			seen[seq]++
		}
		for seq := 1; seq <= sent; seq++ {
			if seen[seq] != 1 {
				wrong.addf("record %d is there %d times", seq, seen[seq])
			}
		}
		wrong.report(t)
		t.Logf("sink %s: %d lines, %d read", name, sent, len(seen))
	}
}

// samples returns all sample records of the repository, one a line.
func samples(t *testing.T) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "records", "*.ndjson"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found no samples in testdata/records: %v", err)
	}
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
		if !bytes.HasSuffix(all, []byte("\n")) {
			t.Fatalf("%s does not end with a newline", file)
		}
	}
	return all
}
