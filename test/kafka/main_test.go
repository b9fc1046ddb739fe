// Package kafka tests docket against a real Kafka.
package kafka

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/docket-export/docket/test/dockettest"
)

func TestMain(m *testing.M) { os.Exit(dockettest.Main(m)) }

const (
	topic = "decisions"
	// deliverTimeout is far beyond what the delivery of a backlog takes, and what a
	// sink needs to notice that its broker is back: its longest backoff is a second here.
	deliverTimeout = 5 * time.Minute
	// brokerTimeout is the sink's: a broker that has not answered by then is given up.
	brokerTimeout = 3 * time.Second
)

// configTo is the same with the section kafka as given, its lines not indented. The files
// of copy are not finished, however long a slow machine needs: the checkpoint of a finished
// file is a record, and the tests count those of their producers.
func configTo(d *dockettest.Docket, kafka string) string {
	return fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: webhook
  unix: {path: %q}
queue: {directory: %q, retain: {maxBytes: 1Gi}}
sinks:
- name: bus
  retry: {initialBackoff: 100ms, maxBackoff: 1s}
  kafka:
    timeout: %s
    %s
- name: copy
  file: {directory: %q, rotate: {maxBytes: 0, maxAge: 0s}}
`, d.Socket, filepath.Join(d.Dir, "queue"), brokerTimeout, strings.ReplaceAll(kafka, "\n", "\n    "), d.ExportDirectory())
}

// delivered returns nil when every sink is Active and has delivered all of n
// stored records.
func delivered(n int) func(dockettest.Status) error {
	return func(s dockettest.Status) error {
		if s.Ledger.Stored != uint64(n) {
			return fmt.Errorf("%d records are stored, want %d", s.Ledger.Stored, n)
		}
		for _, name := range []string{"bus", "copy"} {
			if l := s.Ledger.Sinks[name]; l.Delivered != uint64(n) {
				return fmt.Errorf("sink %s has delivered %d of %d, its state is %+v", name, l.Delivered, n, s.Sink(name))
			}
			if sink := s.Sink(name); sink.State != "Active" {
				return fmt.Errorf("sink %s has delivered everything and is %+v, want Active", name, sink)
			}
		}
		return nil
	}
}

// problems are what is wrong with the records of a topic. One fault is seldom
// alone among a hundred thousand records, so only the first few are shown.
type problems []string

func (p *problems) addf(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

func (p problems) report(t *testing.T) {
	t.Helper()
	if len(p) > 0 {
		t.Errorf("%d problems, the first of them:\n%s", len(p), strings.Join(p[:min(len(p), 10)], "\n"))
	}
}

// header returns the value of a record's header, and whether it is there exactly
// once.
func header(r *kgo.Record, key string) (value string, ok bool) {
	n := 0
	for _, h := range r.Headers {
		if h.Key == key {
			value = string(h.Value)
			n++
		}
	}
	return value, n == 1
}
