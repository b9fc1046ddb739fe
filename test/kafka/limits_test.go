package kafka

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision/once"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kafkatest"
)

// TestLimits is about what one broker bounds: what a client writes in a second,
// and how large a record is; and about a topic that docket makes.
func TestLimits(t *testing.T) {
	cluster := kafkatest.Start(t, 1)
	t.Run("throttled", func(t *testing.T) { throttled(t, cluster) })
	t.Run("oversized", func(t *testing.T) { oversized(t, cluster, "none") })
	t.Run("oversized-compressed", func(t *testing.T) { oversized(t, cluster, "gzip") })
}

// throttled gives docket's client a quota that is a fraction of what the producers
// send. docket waits as long as the broker asks it to, says so, and everything
// arrives in the end.
func throttled(t *testing.T, cluster *kafkatest.Cluster) {
	cluster.CreateTopic(topic, 3, 1)
	cluster.SetProduceQuota("slow", 500<<10)
	d := dockettest.New(t)
	d.Start(configTo(d, limited(cluster, topic)+"\nclientID: slow"))
	l := startLoad(t, d)
	d.Await("sink bus to be throttled", deliverTimeout, func(s dockettest.Status) error {
		if sink := s.Sink("bus"); sink.State != "Degraded" || sink.Reason != "Throttled" {
			return fmt.Errorf("sink bus is %+v, want Degraded and Throttled", sink)
		}
		return nil
	})
	const backlog = 10_000
	d.Await("a backlog", deliverTimeout, func(s dockettest.Status) error {
		if n := s.Ledger.Sinks["bus"].Pending; n < backlog {
			return fmt.Errorf("%d records are waiting, want %d", n, backlog)
		}
		return nil
	})
	if err := d.Ready(); err != nil {
		t.Errorf("docket is not ready while it is throttled: %v", err)
	}
	sent, acknowledged := l.stop(t)
	cluster.SetProduceQuota("slow", 100<<20)
	status := d.Await("everything to be delivered", deliverTimeout, delivered(sent))
	d.Stop()

	got := readTopic(t, cluster, status.Queue.ID)
	lost := l.missing(got.lines)
	t.Logf("summary: sent %d, acknowledged %d, seen %d, duplicates %d, lost %d",
		sent, acknowledged, got.records, got.duplicates, len(lost))
	if sent != acknowledged || len(lost) > 0 || len(got.lines) != sent {
		t.Errorf("%d lines are in the topic, want %d", len(got.lines), sent)
	}
}

// oversized sends one record that is too large for the topic among others that are
// not. It is set aside alone, an operator is told why, and when the topic takes
// more it is redriven: a consumer that drops redeliveries gets all of them, each
// once. Uncompressed, docket can tell by itself what is too large; compressed, it
// has to hear it from the broker.
func oversized(t *testing.T, cluster *kafkatest.Cluster, compression string) {
	const (
		n     = 500
		large = 250 // its number
	)
	topic := "small-" + compression
	cluster.CreateTopic(topic, 3, 1)
	cluster.SetMaxMessageBytes(topic, 20_000)
	d := dockettest.New(t)
	d.Start(configTo(d, limited(cluster, topic)+"\ncompression: "+compression))
	lines := numbered(n)
	padding := make([]byte, 40_000) // random, so that it is large in any form
	_, _ = rand.Read(padding)
	lines[large-1] = fmt.Sprintf(`{"number":%d,"key":"k","padding":"%s"}`, large, base64.StdEncoding.EncodeToString(padding))
	d.Send([]byte(strings.Join(lines, "\n") + "\n"))

	status := d.Await("the record to be set aside", deliverTimeout, func(s dockettest.Status) error {
		if l := s.Ledger.Sinks["bus"]; l.Delivered != n-1 || l.DeadLettered != 1 {
			return fmt.Errorf("sink bus is %+v, its books %+v; want %d delivered and one set aside", s.Sink("bus"), l, n-1)
		}
		return active(s)
	})
	id := fmt.Sprintf("%s-%d", status.Queue.ID, large)
	checkLetter(t, d, id, topic, lines[large-1])

	cluster.SetMaxMessageBytes(topic, 1<<20)
	d.Run("deadletter", "redrive", "-f", d.ConfigFile(), "--sink", "bus", id)
	d.Await("the record to be delivered", deliverTimeout, delivered(n))
	if rest := letters(t, d); len(rest) != 0 {
		t.Errorf("the dead letters still hold %+v", rest)
	}
	d.Stop()
	records := cluster.ReadAll(topic)
	lost := checkOnce(t, records, lines, map[int]once.Late{large: once.Redriven})
	t.Logf("summary: sent %d, acknowledged %d, seen %d, set aside and redriven 1, lost %d", n, n, len(records), lost)
}

// letter is what docket deadletter ls says of a record.
type letter struct {
	ID, Sink, Reason, Status, Answer string
	Attempts                         int
	FirstFailed, LastFailed          time.Time
}

func letters(t *testing.T, d *dockettest.Docket) []letter {
	t.Helper()
	var all []letter
	out := d.Run("deadletter", "ls", "-f", d.ConfigFile(), "--sink", "bus", "-o", "json")
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatalf("docket deadletter ls: %v in %s", err, out)
	}
	return all
}

// checkLetter reads the one dead letter there must be.
func checkLetter(t *testing.T, d *dockettest.Docket, id, topic, record string) {
	t.Helper()
	all := letters(t, d)
	if len(all) != 1 {
		t.Fatalf("%d records are set aside, want 1: %+v", len(all), all)
	}
	got := all[0]
	t.Logf("docket deadletter ls says: %+v", got)
	if got.ID != id || got.Sink != "bus" || got.Status != "MESSAGE_TOO_LARGE" || got.Attempts < 1 ||
		got.FirstFailed.IsZero() || got.LastFailed.Before(got.FirstFailed) {
		t.Errorf("got %+v, want %s of sink bus with the status MESSAGE_TOO_LARGE", got, id)
	}
	if !strings.Contains(got.Reason, topic) || got.Answer == "" {
		t.Errorf("the reason is %q and the answer %q, want texts, and the name of the topic", got.Reason, got.Answer)
	}
	out := d.Run("deadletter", "show", "-f", d.ConfigFile(), "--sink", "bus", id, "-o", "json")
	if !bytes.Contains(out, []byte(record)) {
		t.Errorf("docket deadletter show does not show the record: %.300s", out)
	}
}

// limited is the section kafka of these tests.
func limited(cluster *kafkatest.Cluster, topic string) string {
	return fmt.Sprintf("brokers: [%s]\ntopic: %s\nkey: [key]", strings.Join(cluster.Brokers(), ", "), topic)
}
