// Package kubernetes tests docket with what runs in a cluster: a real API server that
// sends it its audit events, and a real Gatekeeper whose disk export and logs it
// reads, or that has docket's client in it.
//
// What these have written is known independently of docket: from the audit log of the
// API server, from the logs of Gatekeeper, and from a second hard link to each file
// of its export.
package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/kubetest"
)

func TestMain(m *testing.M) { os.Exit(dockettest.Main(m)) }

// awaitTimeout bounds what the next audits are to show, seconds apart, and what is to
// be delivered, on a machine that is busy with more.
const awaitTimeout = 5 * time.Minute

// config is a configuration of d with sources and a file sink named copy. The API server,
// which keeps its connection for more events, is waited for four fifths of its drainTimeout
// at most.
func config(d *dockettest.Docket, sources string) string {
	// Before the sinks, so that a test can add one.
	return strings.Replace(d.Config(sources), "sinks:", "shutdown: {drainTimeout: 4s}\nsinks:", 1)
}

// exported returns the lines of the file export in order, while docket runs those
// that are delivered so far.
func exported(t *testing.T, d *dockettest.Docket) []string {
	t.Helper()
	return dockettest.Exported(t, d.ExportDirectory())
}

// wholeLines returns the lines of a file that end with a newline. There are none in
// a file that is not there.
func wholeLines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []string
	for line := range bytes.Lines(text) {
		if whole, ok := bytes.CutSuffix(line, []byte("\n")); ok {
			all = append(all, string(whole))
		}
	}
	return all
}

// decode reads a line of JSON, less the members that v has no place for.
func decode(t *testing.T, line string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), v); err != nil {
		t.Fatalf("read %.300s: %v", line, err)
	}
}

// await asks until ok returns nil.
func await(t *testing.T, what string, ok func() error) {
	t.Helper()
	if err := poll.Until(awaitTimeout, ok); err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}

// awaitDelivered waits until docket has stored n records or more and delivered all it
// has stored.
func awaitDelivered(d *dockettest.Docket, n int) dockettest.Status {
	return d.Await("everything to be delivered", awaitTimeout, func(s dockettest.Status) error {
		if l := s.Ledger.Sinks["copy"]; s.Ledger.Stored < uint64(n) || l.Delivered != s.Ledger.Stored {
			return fmt.Errorf("%d records are stored, want %d or more; the sink is %+v, its books %+v", s.Ledger.Stored, n, s.Sink("copy"), l)
		}
		return nil
	})
}

// tally is what became of lines that somebody wrote.
type tally struct {
	written, seen, duplicates, lost, foreign int

	example string // of the foreign ones
}

// count compares lines that were written with those that came, whatever their order.
// Equal lines count as often as they were written.
func count(written, came []string) tally {
	n := tally{written: len(written)}
	want := make(map[string]int)
	for _, line := range written {
		want[line]++
	}
	got := make(map[string]int)
	for _, line := range came {
		got[line]++
	}
	for line, w := range want {
		n.seen += min(w, got[line])
		n.lost += max(0, w-got[line])
		n.duplicates += max(0, got[line]-w)
	}
	for line, g := range got {
		if want[line] == 0 {
			n.foreign += g
			n.example = line
		}
	}
	return n
}

// add adds up.
func (n *tally) add(m tally) {
	n.written += m.written
	n.seen += m.seen
	n.duplicates += m.duplicates
	n.lost += m.lost
	n.foreign += m.foreign
	n.example = m.example
}

// check fails unless every line came once and no other did.
func (n tally) check(t *testing.T) {
	t.Helper()
	if n.lost != 0 || n.duplicates != 0 || n.foreign != 0 {
		t.Errorf("%d lines were written; %d of them are lost, %d came again, and %d came that were not written: %s", n.written, n.lost, n.duplicates, n.foreign, n.example)
	}
}

func (n tally) String() string {
	return fmt.Sprintf("logged %d, seen %d, duplicates %d, lost %d", n.written, n.seen, n.duplicates, n.lost)
}

// constraint is the manifest of a constraint that asks for the label team of every
// ConfigMap in a namespace.
func constraint(name, action, namespace string) string {
	return fmt.Sprintf(`apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sRequiredLabels
metadata: {name: %s}
spec:
  enforcementAction: %s
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}], namespaces: [%s]}
  parameters: {labels: [team]}
`, name, action, namespace)
}

// configMaps is the manifest of n ConfigMaps without labels, named by prefix.
func configMaps(namespace, prefix string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%d, namespace: %s}\n", prefix, i, namespace)
	}
	return b.String()
}

// awaitConstraints waits until Gatekeeper has taken up a constraint named team-required,
// for ConfigMaps in namespace, which is applied for this: those that were applied
// before it are in force then as well.
func awaitConstraints(c *kubetest.Cluster, namespace string) {
	c.Apply(constraint("team-required", "deny", namespace))
	c.AwaitDenial("team-required", "create", "configmap", "probe", "-n", namespace)
}
