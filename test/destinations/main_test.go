// Package destinations tests docket against real servers that take records over
// HTTP - OpenSearch, Grafana Loki, the OpenTelemetry collector - and over a network
// that fails on purpose.
//
// The servers are made once, into a folder of the repository that git ignores: see
// package artifact.
package destinations

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/dockettest"
)

func TestMain(m *testing.M) { os.Exit(dockettest.Main(m)) }

// deliverTimeout bounds the delivery of a backlog, and what a sink needs to notice
// that its server is back: its longest backoff is a second here. On a machine that is
// busy a server takes long to come back, and the load goes on meanwhile.
const deliverTimeout = 5 * time.Minute

// sink is the name of the one sink of every test.
const sink = "out"

// config is a configuration of d whose sink has the section http as given, its
// lines not indented.
func config(d *dockettest.Docket, http string) string { return sinkConfig(d, "http:\n  "+indent(http)) }

// sinkConfig is the same with the sections of the sink as given.
func sinkConfig(d *dockettest.Docket, sections string) string {
	return fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: webhook
  unix: {path: %q}
queue: {directory: %q}
sinks:
- name: %s
  batch: {maxWait: 100ms}
  retry: {initialBackoff: 100ms, maxBackoff: 1s}
  %s
`, d.Socket, filepath.Join(d.Dir, "queue"), sink, indent(sections))
}

func indent(lines string) string { return strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n  ") }

// active returns nil when the sink works.
func active(s dockettest.Status) error {
	if got := s.Sink(sink); got.State != "Active" {
		return fmt.Errorf("the sink is %+v, want Active", got)
	}
	return nil
}

// failing returns nil when the sink is in that state for that reason.
func failing(state, reason string) func(dockettest.Status) error {
	return func(s dockettest.Status) error {
		if got := s.Sink(sink); got.State != state || got.Reason != reason {
			return fmt.Errorf("the sink is %+v, want %s and %s", got, state, reason)
		}
		return nil
	}
}

// delivered returns nil when n records are stored, all of them are delivered, and
// the sink works.
func delivered(n int) func(dockettest.Status) error {
	return func(s dockettest.Status) error {
		if l := s.Ledger.Sinks[sink]; s.Ledger.Stored != uint64(n) || l.Delivered != uint64(n) {
			return fmt.Errorf("%d records are stored, want %d; the sink is %+v, its books %+v", s.Ledger.Stored, n, s.Sink(sink), l)
		}
		return active(s)
	}
}

// beyond returns nil when the sink works and has delivered more than n records.
func beyond(n uint64) func(dockettest.Status) error {
	return func(s dockettest.Status) error {
		if got := s.Ledger.Sinks[sink].Delivered; got <= n {
			return fmt.Errorf("%d records are delivered, want more than %d; the sink is %+v", got, n, s.Sink(sink))
		}
		return active(s)
	}
}

// awaitMore waits until docket has delivered some hundred records more.
func awaitMore(d *dockettest.Docket) {
	before := d.Status().Ledger.Sinks[sink].Delivered
	d.Await("some more delivery", deliverTimeout, beyond(before+500))
}
