// Package gatekeeper tests docket against Gatekeeper's own code.
package gatekeeper

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-policy-agent/gatekeeper/v3/pkg/export/driver"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/export/util"

	"github.com/docket-export/docket/client/gatekeeperexport"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/poll"
)

func TestMain(m *testing.M) { os.Exit(dockettest.Main(m)) }

// Gatekeeper can plug the driver in. Its releases up to 3.23 publish one record
// at a time; the line after them asks a driver for batches as well, in these
// words.
var (
	_ driver.Driver = (*gatekeeperexport.Driver)(nil)
	_ interface {
		PublishBatch(ctx context.Context, connectionName string, data []any, subject string) []error
	} = (*gatekeeperexport.Driver)(nil)
)

const (
	connection = "audit-connection"
	channel    = "audit-channel"
	// deliverTimeout bounds the delivery of what is stored to a file on this
	// machine, and the way back of a client after a restart, on one that is busy.
	deliverTimeout = 3 * time.Minute
)

// exporterConfig is a configuration of d with a stream source and a file sink.
func exporterConfig(d *dockettest.Docket) string {
	return d.Config(dockettest.UnixSource("gatekeeper", d.Socket))
}

// open returns a driver with a connection to d, whose config has members as well.
func open(t *testing.T, d *dockettest.Docket, members map[string]any) driver.Driver {
	t.Helper()
	drv := gatekeeperexport.New(gatekeeperexport.Options{Pod: "gatekeeper-audit-7d9f"})
	config := map[string]any{"address": "unix://" + d.Socket}
	for key, value := range members {
		config[key] = value
	}
	if err := drv.CreateConnection(t.Context(), connection, config); err != nil {
		t.Fatal(err)
	}
	return drv
}

// violation is what Gatekeeper's audit publishes of one violation.
func violation(n int) util.ExportMsg {
	return util.ExportMsg{
		ID:                    "2026-01-05T10:04:00Z",
		Details:               map[string]any{"missing_labels": []string{"team"}, "limit": json.Number("12345678901234567890")},
		EventType:             "violation_audited",
		Group:                 "constraints.gatekeeper.sh",
		Version:               "v1beta1",
		Kind:                  "K8sRequiredLabels",
		Name:                  "require-team",
		Message:               `you must provide labels: {"team"} & <more>`,
		EnforcementAction:     "deny",
		ConstraintAnnotations: map[string]string{"owner": "platform"},
		ResourceAPIVersion:    "v1",
		ResourceKind:          "Pod",
		ResourceNamespace:     "shop",
		ResourceName:          fmt.Sprintf("cart-%d", n),
		ResourceLabels:        map[string]string{"app": "cart"},
	}
}

// marshal is how Gatekeeper's own drivers write a record.
func marshal(msg util.ExportMsg) string {
	line, err := json.Marshal(msg)
	if err != nil {
		panic(err) // it has no such values
	}
	return string(line)
}

// exported waits until d has delivered all it stored, stops it, and returns the
// lines of the file export.
func exported(t *testing.T, d *dockettest.Docket) []string {
	t.Helper()
	d.Await("everything to be delivered", deliverTimeout, func(s dockettest.Status) error {
		if l := s.Ledger.Sinks["copy"]; l.Delivered != s.Ledger.Stored {
			return fmt.Errorf("%d of %d records are delivered", l.Delivered, s.Ledger.Stored)
		}
		return nil
	})
	d.Stop()
	return dockettest.Exported(t, d.ExportDirectory())
}

// An audit run arrives whole, in order, and in the bytes of Gatekeeper's drivers,
// in each mode; in mode Batch it is there when the end of the run was published.
func TestAuditRun(t *testing.T) {
	const violations = 1000
	for _, mode := range []string{"BlockingStrict", "Batch"} {
		t.Run(mode, func(t *testing.T) {
			d := dockettest.New(t)
			d.Start(exporterConfig(d))
			drv := open(t, d, map[string]any{"mode": mode, "timeout": "1m"}) // the disk may be busy
			run := []util.ExportMsg{{ID: "2026-01-05T10:04:00Z", Message: util.AuditStartedMsg}}
			for n := range violations {
				run = append(run, violation(n))
			}
			run = append(run, util.ExportMsg{ID: "2026-01-05T10:04:00Z", Message: util.AuditCompletedMsg})

			began := time.Now()
			var want []string
			for _, msg := range run {
				if err := drv.Publish(context.Background(), connection, msg, channel); err != nil {
					t.Fatal(err)
				}
				want = append(want, marshal(msg))
			}
			took := time.Since(began)
			t.Logf("%d records in %v, %v each", len(run), took.Round(time.Millisecond), (took / time.Duration(len(run))).Round(time.Microsecond))
			if got := d.Status().Ledger.Stored; got != uint64(len(run)) {
				t.Errorf("%d records are stored at the end of the run, want %d", got, len(run))
			}
			if err := drv.CloseConnection(connection); err != nil {
				t.Error(err)
			}
			got := exported(t, d)
			if !slices.Equal(got, want) {
				t.Errorf("the export has %d records and is not the run of %d", len(got), len(want))
			}
		})
	}
}

// publisher publishes records until it is told to stop, and remembers for which
// of them it got nil.
type publisher struct {
	acknowledged, failed atomic.Int64 // records
	yes                  map[string]bool
}

// run publishes at the pace at which an audit finds violations. publish is given
// the number of its call and returns the lines that it published.
func (p *publisher) run(ctx context.Context, publish func(n int) (lines []string, errs []error)) {
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	p.yes = make(map[string]bool)
	for n := 0; ctx.Err() == nil; n++ {
		lines, errs := publish(n)
		for i, line := range lines {
			if p.yes[line] = errs[i] == nil; p.yes[line] {
				p.acknowledged.Add(1)
			} else {
				p.failed.Add(1)
			}
		}
		<-pace.C
	}
}

// await waits until count has grown by 50.
func await(t *testing.T, what string, count *atomic.Int64) {
	t.Helper()
	since := count.Load()
	err := poll.Until(deliverTimeout, func() error {
		if n := count.Load() - since; n < 50 {
			return fmt.Errorf("%s: %d, want 50", what, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestKill kills docket several times while the audit and the webhook of
// Gatekeeper publish, and at last both sides for good. Every record for which
// Publish returned nil is in the export exactly once, and no other twice.
func TestKill(t *testing.T) {
	d := dockettest.New(t)
	d.Start(exporterConfig(d))
	// There is room for all that is published while docket is away, however long it
	// takes to start: the client would tell of what it had to drop in records of its own.
	drv := open(t, d, map[string]any{"maxBufferedBytes": "1Gi"})
	batches, ok := drv.(interface {
		PublishBatch(ctx context.Context, connectionName string, data []any, subject string) []error
	})
	if !ok {
		t.Fatal("the driver takes no batches")
	}
	var audit, webhook publisher
	var publishers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer publishers.Wait()
	defer stop()
	publishers.Go(func() {
		audit.run(ctx, func(n int) ([]string, []error) {
			msg := violation(n)
			err := drv.Publish(context.Background(), connection, msg, channel)
			return []string{marshal(msg)}, []error{err}
		})
	})
	publishers.Go(func() {
		webhook.run(ctx, func(n int) (lines []string, errs []error) {
			var data []any
			for i := range 16 {
				line := fmt.Sprintf(`{"eventType":"violation_admission", "id":"%d-%d", "enforcementAction":"warn","limit":1.10}`, n, i)
				lines, data = append(lines, line), append(data, json.RawMessage(line))
			}
			return lines, batches.PublishBatch(context.Background(), connection, data, channel)
		})
	})
	for range 3 {
		await(t, "violations of the audit acknowledged", &audit.acknowledged)
		await(t, "violations of the webhook acknowledged", &webhook.acknowledged)
		d.Kill()
		d.Start(exporterConfig(d))
	}
	await(t, "violations of the audit acknowledged", &audit.acknowledged)
	d.Kill()
	// What waits in memory now is lost with it, and no nil was given for it.
	await(t, "violations of the audit not acknowledged", &audit.failed)
	stop()
	publishers.Wait()
	if err := drv.CloseConnection(connection); err == nil {
		t.Error("the connection was closed without a word of what was not acknowledged")
	}
	d.Start(exporterConfig(d))

	count := make(map[string]int)
	for _, line := range exported(t, d) {
		count[line]++
	}
	for who, p := range map[string]*publisher{"audit": &audit, "webhook": &webhook} {
		t.Logf("%s: %d records acknowledged and %d not", who, p.acknowledged.Load(), p.failed.Load())
		for line, acknowledged := range p.yes {
			if n := count[line]; n > 1 || n == 0 && acknowledged {
				t.Errorf("%s: acknowledged %t, and %d times in the export: %s", who, acknowledged, n, line)
			}
			delete(count, line)
		}
	}
	for line := range count {
		t.Errorf("the export has what nobody has published: %s", line)
	}
}
