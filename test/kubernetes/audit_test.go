package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/proxy"
	"github.com/docket-export/docket/test/kubetest"
)

// auditPolicy makes events of all sizes, and several of one request: one for each stage.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: RequestResponse, resources: [{group: "", resources: [configmaps]}]}
- {level: Metadata}
`

// auditEvent is what these tests read of an event of the API server.
type auditEvent struct {
	Annotations    map[string]string
	ResponseStatus struct {
		Code    int
		Message string
	}
}

// auditLog returns the events of the API server's own log that are wanted, in the form
// in which they are sent: there they do not say of what kind they are, as the list
// around them does.
func auditLog(t *testing.T, c audited, wanted func(auditEvent) bool) []string {
	t.Helper()
	var events []string
	for _, line := range wholeLines(t, c.AuditLog) {
		rest, ok := strings.CutPrefix(line, `{"kind":"Event","apiVersion":"audit.k8s.io/v1",`)
		if !ok {
			t.Fatalf("a line of the audit log begins in another way: %.200s", line)
		}
		var e auditEvent
		decode(t, line, &e)
		if wanted(e) {
			events = append(events, "{"+rest)
		}
	}
	return events
}

// audited is a cluster whose API server sends its audit events to docket, through a
// network that can fail.
type audited struct {
	*kubetest.Cluster
	docket        *dockettest.Docket
	configuration string // of docket
	network       *proxy.Proxy
}

// auditKubeconfig is that of docs/sources/kubernetes-audit.md without TLS.
const auditKubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: docket
  cluster: {server: "http://%s/audit"}
contexts:
- name: docket
  context: {cluster: docket}
current-context: docket
`

func startAudit(t *testing.T, preset string) audited {
	t.Helper()
	addresses, err := freeport.Loopback(1)
	if err != nil {
		t.Fatal(err)
	}
	d := dockettest.New(t)
	configuration := config(d, fmt.Sprintf("- name: apiserver\n  kubernetesAudit: {address: %q, preset: %s}", addresses[0], preset))
	d.Start(configuration)
	kubeconfig := filepath.Join(d.Dir, "kubeconfig")
	network := proxy.New(t, addresses[0])
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, auditKubeconfig, network.Address()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := kubetest.Start(t, kubetest.Options{AuditPolicy: auditPolicy, AuditWebhook: kubeconfig})
	return audited{c, d, configuration, network}
}

// TestAuditWebhook kills docket while the API server sends it audit events, with an
// answer on its way that the API server never gets. Every event of the API server's own
// audit log is in the export exactly once, byte for byte.
func TestAuditWebhook(t *testing.T) {
	c := startAudit(t, "All")
	d := c.docket
	c.Kubectl("create", "namespace", "shop")
	const kills, objects = 4, 100
	for round := range kills {
		work := make(chan error)
		go func() {
			_, err := c.Try(configMaps("shop", fmt.Sprintf("stock-%d", round), objects), "create", "-f", "-")
			work <- err
		}()
		before := d.Status().Ledger.Stored
		d.Await("some events", awaitTimeout, func(s dockettest.Status) error {
			if s.Ledger.Stored < before+50 {
				return fmt.Errorf("%d are stored, and %d were before", s.Ledger.Stored, before)
			}
			return nil
		})
		proxy.Await(t, c.network.Strike(proxy.LoseAnswer)) // docket has the events; the API server does not know
		d.Kill()
		d.Start(c.configuration)
		if err := <-work; err != nil {
			t.Fatal(err)
		}
	}
	d.Await("events that come again, as their answer was lost", awaitTimeout, func(s dockettest.Status) error {
		if s.Ledger.Duplicate == 0 { // the API server waits for 10 s and more
			return errors.New("docket has recognised no event that it had")
		}
		return nil
	})
	n, status := compareAudit(t, c, func(auditEvent) bool { return true })
	t.Logf("summary: audit events %s; %d came twice and were stored once; docket killed %d times", n, status.Ledger.Duplicate, kills)
}

// compareAudit waits until docket has exported what the API server's log has now of
// the events that are wanted, stops docket, and compares its export with the log.
//
// The API server runs on: when it stops it writes the last events to its log alone.
func compareAudit(t *testing.T, c audited, wanted func(auditEvent) bool) (tally, dockettest.Status) {
	t.Helper()
	d := c.docket
	written := auditLog(t, c, wanted)
	await(t, "the events that are in the log", func() error {
		if n := count(written, exported(t, d)); n.lost > 0 {
			return fmt.Errorf("%d of %d are not in the export; the API server says:\n%s", n.lost, len(written), givenUp(t, c))
		}
		return nil
	})
	status := d.Status()
	d.Stop()
	came := exported(t, d)
	n := count(written, came)
	// What came after the log was read is in the log as well.
	later := count(auditLog(t, c, wanted), came)
	n.foreign, n.example = later.foreign, later.example
	n.check(t)
	return n, status
}

// givenUp returns what the API server says of events that it could not send and has
// given up.
func givenUp(t *testing.T, c audited) string {
	t.Helper()
	lines := slices.DeleteFunc(wholeLines(t, c.APIServer.Log), func(line string) bool {
		return !strings.Contains(line, "Error in audit plugin")
	})
	return strings.Join(lines[:min(len(lines), 10)], "\n")
}

// silentWebhook is the manifest of a webhook for ConfigMaps that nobody serves, and
// that may be left out then.
const silentWebhook = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: silent}
webhooks:
- name: silent.docket.dev
  admissionReviewVersions: [v1]
  clientConfig: {url: "https://127.0.0.1:1/"}
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 1
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
`
