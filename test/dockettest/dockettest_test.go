package dockettest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/dockettest"
)

func TestMain(m *testing.M) { os.Exit(dockettest.Main(m)) }

// TestLife shows that an installation is good for the tests that build on it: it
// outlives the SIGKILL of its process.
func TestLife(t *testing.T) {
	d := dockettest.New(t)
	config := d.Config(dockettest.UnixSource("webhook", d.Socket))
	d.Start(config)
	d.Send([]byte("{\"n\":1}\n{\"n\":2}\n"))
	if got := d.Status().Ledger.Stored; got != 2 {
		t.Errorf("got %d records stored, want 2", got)
	}
	d.Kill()
	if err := d.Ready(); err == nil {
		t.Error("docket is ready after it was killed")
	}
	d.Start(config)
	d.Send([]byte("{\"n\":3}\n"))
	d.Await("three records to be delivered", time.Minute, func(s dockettest.Status) error {
		if l := s.Ledger.Sinks["copy"]; l.Delivered != 3 {
			return fmt.Errorf("got %+v, want 3 delivered", l)
		}
		return nil
	})
	d.Stop()

	files, err := filepath.Glob(filepath.Join(d.ExportDirectory(), "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(text)
	}
	if want := "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n"; got.String() != want {
		t.Errorf("the export holds %q, want %q", got.String(), want)
	}
}

func TestBalance(t *testing.T) {
	sink := func(delivered, pending uint64) map[string]dockettest.SinkLedger {
		return map[string]dockettest.SinkLedger{"bus": {Delivered: delivered, Pending: pending}}
	}
	tests := map[string]struct {
		ledger dockettest.Ledger
		want   error
	}{
		"empty":           {},
		"balanced":        {ledger: dockettest.Ledger{Received: 6, Stored: 3, Duplicate: 1, Refused: map[string]uint64{"InvalidJSON": 2}, Sinks: sink(2, 1)}},
		"a line too many": {ledger: dockettest.Ledger{Received: 2, Stored: 3, Sinks: sink(3, 0)}, want: errors.New("received 2 is not stored 3 + refused 0 + duplicate 0")},
		"a record short":  {ledger: dockettest.Ledger{Received: 3, Stored: 3, Sinks: sink(1, 1)}, want: errors.New("sink bus: stored 3 is not the sum of {Delivered:1 Filtered:0 DeadLettered:0 Dropped:0 Corrupt:0 Pending:1}")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.ledger.Balance(); fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
