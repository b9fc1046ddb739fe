package kafka

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/kafkatest"
)

// TestBrokerKilled kills the only broker of a topic twice while four producers
// stream through docket. They notice nothing, nothing they were told is safe is
// missing in the topic or there twice, and the file sink beside it is undisturbed.
func TestBrokerKilled(t *testing.T) {
	cluster := kafkatest.Start(t, 1)
	cluster.CreateTopic(topic, 3, 1)
	breakUnderLoad(t, cluster, kill(cluster, 1), kill(cluster, 1))
}

// TestLeaderKilled is the same with three nodes and three replicas of the topic:
// every node dies once, and others lead meanwhile.
func TestLeaderKilled(t *testing.T) {
	cluster := kafkatest.Start(t, 3)
	cluster.CreateTopic(topic, 3, 3)
	breakUnderLoad(t, cluster, kill(cluster, 1), kill(cluster, 2), kill(cluster, 3))
}

// TestBrokerFrozen is the same with a broker that stops answering and, when it
// goes on, stores what was sent to it meanwhile: docket has given those requests
// up and made them again, and the broker knows them.
func TestBrokerFrozen(t *testing.T) {
	cluster := kafkatest.Start(t, 1)
	cluster.CreateTopic(topic, 3, 1)
	freeze := fault{strike: func() { cluster.Freeze(1) }, mend: func() { cluster.Thaw(1) }}
	breakUnderLoad(t, cluster, freeze, freeze)
}

// fault is something bad that happens to a broker and is then mended.
type fault struct{ strike, mend func() }

func kill(cluster *kafkatest.Cluster, node int) fault {
	return fault{strike: func() { cluster.Kill(node) }, mend: func() { cluster.Restart(node) }}
}

// breakUnderLoad lets the faults strike one after the other, each when docket
// delivers again after the one before.
func breakUnderLoad(t *testing.T, cluster *kafkatest.Cluster, faults ...fault) {
	t.Helper()
	d := dockettest.New(t)
	d.Start(config(d, cluster, "key"))
	l := startLoad(t, d)
	for _, f := range faults {
		before := d.Status().Ledger.Sinks["bus"].Delivered
		d.Await("some delivery before the fault", deliverTimeout, beyond(before+5000))
		failed := sendFailures(t, d)
		f.strike()
		awaitFault(t, d, cluster, failed)
		if err := d.Ready(); err != nil {
			t.Errorf("docket is not ready while a broker is down: %v", err)
		}
		f.mend()
		d.Await("sink bus to be Active again", deliverTimeout, active)
	}
	sent, acknowledged := l.stop(t)
	if sent != acknowledged {
		t.Errorf("%d records were sent and %d acknowledged by the end", sent, acknowledged)
	}
	status := d.Await("everything to be delivered", deliverTimeout, delivered(sent))
	d.Stop()

	got := readTopic(t, cluster, status.Queue.ID)
	lost := l.missing(got.lines)
	t.Logf("summary: sent %d, acknowledged %d, read back %d, duplicates %d, lost %d",
		sent, acknowledged, got.records, got.duplicates, len(lost))
	if len(lost) > 0 || len(got.lines) != sent {
		t.Errorf("%d lines are in the topic, want %d; the first missing ones: %v", len(got.lines), sent, lost[:min(len(lost), 10)])
	}
	if got.duplicates > 0 {
		t.Errorf("%d lines are in the topic twice", got.duplicates)
	}
	checkExport(t, d.ExportDirectory(), l)
}

// awaitFault waits until docket has met a fault: an attempt has failed since there were
// so many failures, and docket says so for as long as no other node can lead.
func awaitFault(t *testing.T, d *dockettest.Docket, cluster *kafkatest.Cluster, failures float64) {
	t.Helper()
	err := poll.Until(deliverTimeout, func() error {
		if n := sendFailures(t, d); n <= failures {
			return fmt.Errorf("%v attempts to deliver have failed, want more than %v", n, failures)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("wait for docket to meet the fault: %v", err)
	}
	if len(cluster.Brokers()) == 1 {
		d.Await("sink bus to be Degraded", deliverTimeout, degraded)
	}
}

// sendFailures is how many attempts of the sink bus to deliver have failed.
func sendFailures(t *testing.T, d *dockettest.Docket) float64 {
	t.Helper()
	resp, err := http.Get("http://" + d.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "docket_send_failures_total{") && strings.Contains(line, `sink="bus"`) {
			n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			if err != nil {
				t.Fatalf("line %q of /metrics: %v", line, err)
			}
			sum += n
		}
	}
	return sum
}

// beyond returns nil when the sink bus is Active and has delivered more than n.
func beyond(n uint64) func(dockettest.Status) error {
	return func(s dockettest.Status) error {
		if got := s.Ledger.Sinks["bus"].Delivered; got <= n {
			return fmt.Errorf("sink bus has delivered %d, want more than %d", got, n)
		}
		return active(s)
	}
}

func active(s dockettest.Status) error {
	if sink := s.Sink("bus"); sink.State != "Active" {
		return fmt.Errorf("sink bus is %+v, want Active", sink)
	}
	return nil
}

func degraded(s dockettest.Status) error {
	if sink := s.Sink("bus"); sink.State != "Degraded" {
		return fmt.Errorf("sink bus is %+v, want Degraded", sink)
	}
	return nil
}

// topicLines is what a topic holds.
type topicLines struct {
	records    int             // all of them
	duplicates int             // those whose docket-id was there before
	late       int             // those sent again on purpose; they are no duplicates
	lines      map[string]bool // the values
}

// readTopic reads the topic and checks what must hold for its records: one id is
// one line in one partition, also when it is there twice; one line has one id;
// and in each partition new records come in the order of their seq.
func readTopic(t *testing.T, cluster *kafkatest.Cluster, queue string) topicLines {
	t.Helper()
	got := topicLines{lines: make(map[string]bool)}
	var wrong problems
	first := make(map[string]*kgo.Record) // by id
	highest := make(map[int32]uint64)     // seq, by partition
	for _, r := range cluster.ReadAll(topic) {
		got.records++
		id, _ := header(r, "docket-id")
		text, _ := header(r, "docket-seq")
		seq, err := strconv.ParseUint(text, 10, 64)
		if err != nil || id != queue+"-"+text {
			wrong.addf("partition %d, offset %d: headers docket-id %q, docket-seq %q do not fit queue %s", r.Partition, r.Offset, id, text, queue)
		}
		if before := first[id]; before != nil {
			if _, late := header(r, "docket-late"); late {
				got.late++
			} else {
				got.duplicates++
			}
			if before.Partition != r.Partition || !bytes.Equal(before.Value, r.Value) {
				wrong.addf("id %s is %q in partition %d and %q in partition %d", id, before.Value, before.Partition, r.Value, r.Partition)
			}
			continue
		}
		first[id] = r
		if got.lines[string(r.Value)] {
			wrong.addf("line %s has two ids, the second is %s", r.Value, id)
		}
		got.lines[string(r.Value)] = true
		if seq <= highest[r.Partition] {
			wrong.addf("partition %d: seq %d comes after %d", r.Partition, seq, highest[r.Partition])
		}
		highest[r.Partition] = seq
	}
	wrong.report(t)
	return got
}

// checkExport reads the files of the sink copy: each line once, those of each
// producer in their order.
func checkExport(t *testing.T, dir string, l *load) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "decisions-*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	// Finished files sort by their first seq, and the active one comes last.
	slices.Sort(files)
	var wrong problems
	lines := make(map[string]bool)
	numbers := make(map[int]int) // last number, by producer
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			producer, number, err := parse(line)
			if err != nil {
				wrong.addf("%s: %v", file, err)
				continue
			}
			if lines[line] {
				wrong.addf("%s: line %s is there twice", file, line)
			}
			lines[line] = true
			if number != numbers[producer]+1 {
				wrong.addf("%s: producer %d: number %d comes after %d", file, producer, number, numbers[producer])
			}
			numbers[producer] = number
		}
	}
	for _, line := range l.missing(lines) {
		wrong.addf("line %s is missing in the files", line)
	}
	wrong.report(t)
}
