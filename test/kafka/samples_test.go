package kafka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kafkatest"
)

// TestSamplesReachKafka streams what real engines wrote through docket into a
// real topic, acknowledged and in plain mode, and reads every byte of it back.
func TestSamplesReachKafka(t *testing.T) {
	cluster := kafkatest.Start(t, 1)
	cluster.CreateTopic(topic, 3, 1)
	d := dockettest.New(t)
	began := time.Now()
	// A broker is slow at first: what it is given up for would be there twice.
	d.Start(strings.Replace(config(d, cluster, "resourceKind", "resourceName"),
		"timeout: "+brokerTimeout.String(), "timeout: 2m", 1))

	// Often enough to fill several batches, and every partition.
	acknowledged := bytes.Repeat(samples(t), 20)
	d.Send(acknowledged)
	n := bytes.Count(acknowledged, []byte("\n"))
	d.Await("the acknowledged lines to be delivered", deliverTimeout, delivered(n))
	plain := samples(t)
	sendPlain(t, d.Socket, plain)
	total := n + bytes.Count(plain, []byte("\n"))
	status := d.Await("the plain lines to be delivered", deliverTimeout, delivered(total))

	// One producer after the other: the number of a line is its seq.
	check := sampleCheck{
		queue:        status.Queue.ID,
		lines:        bytes.Split(bytes.TrimSuffix(append(acknowledged, plain...), []byte("\n")), []byte("\n")),
		acknowledged: n,
		began:        began,
		seen:         make(map[int]bool),
	}
	records := cluster.ReadAll(topic)
	var wrong problems
	partitions := make(map[int32]int) // highest seq so far
	for _, r := range records {
		seq, err := check.record(r)
		if err != nil {
			wrong.addf("partition %d, offset %d: %v", r.Partition, r.Offset, err)
			continue
		}
		if seq <= partitions[r.Partition] {
			wrong.addf("partition %d: seq %d comes after %d", r.Partition, seq, partitions[r.Partition])
		}
		partitions[r.Partition] = seq
	}
	wrong.report(t)
	if len(partitions) != 3 {
		t.Errorf("records are in %d of 3 partitions", len(partitions))
	}
	if got := status.Ledger; got.Received != uint64(total) || got.Duplicate != 0 || len(got.Refused) != 0 || got.Corrupt != 0 {
		t.Errorf("got ledger %+v, want %d received and all of them stored", got, total)
	}
	d.Stop()
	t.Logf("summary: sent %d (%d acknowledged), read back %d, duplicates %d, lost %d",
		total, n, len(records), len(records)-len(check.seen), total-len(check.seen))
	if len(check.seen) != total {
		t.Errorf("%d of %d records are in the topic", len(check.seen), total)
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

// sendPlain writes lines to the socket as a producer does that knows nothing of
// docket.
func sendPlain(t *testing.T, socket string, lines []byte) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(lines); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// sampleCheck knows what must stand in the topic.
type sampleCheck struct {
	queue        string       // id of the queue
	lines        [][]byte     // by seq, from 1
	acknowledged int          // so many of the lines came from a numbered producer
	producer     string       // its name, once known
	began        time.Time    // nothing was received before
	seen         map[int]bool // the seqs found so far
}

// record compares r with the line it must be, and returns its seq.
func (c *sampleCheck) record(r *kgo.Record) (int, error) {
	text, _ := header(r, "docket-seq")
	seq, err := strconv.Atoi(text)
	if err != nil || seq < 1 || seq > len(c.lines) {
		return 0, fmt.Errorf("header docket-seq is %q, want 1 to %d", text, len(c.lines))
	}
	if c.seen[seq] {
		return 0, fmt.Errorf("seq %d is there twice", seq)
	}
	c.seen[seq] = true
	line := c.lines[seq-1]
	if !bytes.Equal(r.Value, line) {
		return 0, fmt.Errorf("seq %d: got\n%s\nwant\n%s", seq, r.Value, line)
	}
	want, err := keyOf(line, "resourceKind", "resourceName")
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(r.Key, want) || (r.Key == nil) != (want == nil) {
		return 0, fmt.Errorf("seq %d: got key %q, want %q for\n%s", seq, r.Key, want, line)
	}
	return seq, c.headers(r, seq)
}

// headers checks what docket says about the record.
func (c *sampleCheck) headers(r *kgo.Record, seq int) error {
	if id, _ := header(r, "docket-id"); id != fmt.Sprintf("%s-%d", c.queue, seq) {
		return fmt.Errorf("seq %d: header docket-id is %q, want the queue %s and the seq", seq, id, c.queue)
	}
	if source, _ := header(r, "docket-source"); source != "webhook" {
		return fmt.Errorf("seq %d: header docket-source is %q, want webhook", seq, source)
	}
	text, _ := header(r, "docket-received")
	if received, err := time.Parse(time.RFC3339Nano, text); err != nil || received.Before(c.began) || received.After(time.Now()) {
		return fmt.Errorf("seq %d: header docket-received is %q, want a time since %v", seq, text, c.began)
	}
	producer, once := header(r, "docket-producer")
	switch {
	case seq > c.acknowledged:
		if once || producer != "" {
			return fmt.Errorf("seq %d: header docket-producer is %q, want none for a line in plain mode", seq, producer)
		}
		return nil
	case c.producer == "":
		c.producer = producer
	}
	if producer == "" || producer != c.producer {
		return fmt.Errorf("seq %d: header docket-producer is %q, want %q and not empty", seq, producer, c.producer)
	}
	return nil
}

// keyOf returns the key that docket must make of string fields of a record: their
// values joined by "/", nil when it has none of them.
func keyOf(record []byte, fields ...string) ([]byte, error) {
	var object map[string]any
	if err := json.Unmarshal(record, &object); err != nil {
		return nil, err
	}
	parts, found := make([]string, len(fields)), false
	for i, field := range fields {
		if value, ok := object[field].(string); ok {
			parts[i], found = value, true
		}
	}
	if !found {
		return nil, nil
	}
	return []byte(strings.Join(parts, "/")), nil
}
