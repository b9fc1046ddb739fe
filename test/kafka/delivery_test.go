package kafka

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kafkatest"
)

// BenchmarkDelivery is the delivery of a backlog to a real broker in batches of 500 records of 1 KB, at least
// once and exactly once. benchstat -col /mode compares them.
//
//	go test -run '^$' -bench Delivery -benchtime 3x ./kafka
func BenchmarkDelivery(b *testing.B) {
	for _, mode := range []string{"AtLeastOnce", "ExactlyOnce"} {
		b.Run("mode="+mode, func(b *testing.B) {
			l := newBacklog(b, 300_000)
			l.deliver("warm", mode) // a broker that has just started is slow
			records, took := 0, time.Duration(0)
			for n := 0; b.Loop(); n++ {
				r, t := l.deliver(fmt.Sprint("sink-", n), mode)
				records, took = records+r, took+t
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(records)/took.Seconds(), "records/s")
		})
	}
}

// waiting are records that every new sink of a docket has to deliver.
type waiting struct {
	*dockettest.Docket
	cluster *kafkatest.Cluster
	records uint64
}

func newBacklog(b *testing.B, records int) *waiting {
	b.Helper()
	l := &waiting{dockettest.New(b), kafkatest.Start(b, 1), uint64(records)}
	l.start("{name: held, http: {url: 'http://127.0.0.1:1/'}}") // nobody listens there
	l.Send(bytes.Repeat(append([]byte("{}"), append(bytes.Repeat([]byte(" "), 1021), '\n')...), records))
	l.Stop()
	return l
}

func (l *waiting) start(sink string) {
	l.Start(fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: webhook
  unix: {path: %q}
queue: {directory: %q}
sinks: [%s]
shutdown: {drainTimeout: 1s}
`, l.Socket, filepath.Join(l.Dir, "queue"), sink))
}

// deliver returns how many records were delivered to a new topic after the first look at them, and in what time.
func (l *waiting) deliver(sink, mode string) (records int, took time.Duration) {
	l.cluster.CreateTopic(sink, 3, 1)
	l.start(fmt.Sprintf("{name: %[1]s, retry: {maxBackoff: 1s}, batch: {maxRecords: 500}, kafka: {brokers: %[2]q, topic: %[1]s, delivery: %[3]s}}",
		sink, l.cluster.Brokers(), mode))
	await := func(n uint64) (delivered uint64) {
		l.Await("the backlog", deliverTimeout, func(s dockettest.Status) error {
			if delivered = s.Ledger.Sinks[sink].Delivered; delivered < n {
				return fmt.Errorf("%d of %d are delivered", delivered, n)
			}
			return nil
		})
		return delivered
	}
	first, began := await(1), time.Now()
	await(l.records)
	took = time.Since(began)
	l.Stop()
	return int(l.records - first), took
}
