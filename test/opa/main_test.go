// Package opa tests docket against a real Open Policy Agent that sends it its
// decisions.
//
// What OPA has decided is known from its own log: it writes each decision there
// before it puts it where uploads are made from, which is its memory.
package opa

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/freeport"
)

func TestMain(m *testing.M) { os.Exit(dockettest.Main(m)) }

// deliverTimeout bounds what is to come from OPA, which waits up to 2 s between two
// uploads and after a failure, and its delivery, on a machine that is busy with more.
const deliverTimeout = 10 * time.Minute

// listener is an address for docket's endpoint. It stays the same over its starts.
func listener(t *testing.T) string {
	t.Helper()
	addresses, err := freeport.Loopback(1)
	if err != nil {
		t.Fatal(err)
	}
	return addresses[0]
}

// config is a configuration of d with the endpoint and a file sink named copy. queue
// holds more keys of the queue, sinks more sinks.
func config(d *dockettest.Docket, address, queue, sinks string) string {
	return fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: opa
  opa: {address: %q}
queue: {directory: %q%s}
sinks:
- name: copy
  file: {directory: %q}
%s`, address, filepath.Join(d.Dir, "queue"), queue, d.ExportDirectory(), sinks)
}

// awaitMore waits until n records more are stored.
func awaitMore(d *dockettest.Docket, n uint64) { awaitStored(d, d.Status().Ledger.Stored+n) }

// awaitStored waits until n records are stored.
func awaitStored(d *dockettest.Docket, n uint64) {
	d.Await("decisions to be stored", deliverTimeout, func(s dockettest.Status) error {
		if s.Ledger.Stored < n {
			return fmt.Errorf("%d decisions are stored, want %d", s.Ledger.Stored, n)
		}
		return nil
	})
}

// awaitDelivered waits until every sink has all that is stored.
func awaitDelivered(d *dockettest.Docket) dockettest.Status {
	return d.Await("everything to be delivered", deliverTimeout, func(s dockettest.Status) error {
		for name, l := range s.Ledger.Sinks {
			if l.Delivered != s.Ledger.Stored {
				return fmt.Errorf("sink %s has delivered %d of %d records; it is %+v", name, l.Delivered, s.Ledger.Stored, s.Sink(name))
			}
		}
		return nil
	})
}
