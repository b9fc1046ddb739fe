package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/helmtest"
	"github.com/docket-export/docket/test/kubetest"
	"github.com/docket-export/docket/test/nodetest"
)

// gatekeeperInUse is held by a test that has Gatekeeper in the cluster, which has room for one.
var gatekeeperInUse sync.Mutex

// gatekeeper is Gatekeeper's chart on the node, with docket as manifests/gatekeeper puts it there: beside
// the audit, and with tap in front of the webhook. A ConfigMap without a team is denied in one
// namespace.
type gatekeeper struct {
	*nodetest.Namespace                     // its own
	shop                *nodetest.Namespace // the one with the constraint
	siem                *nodetest.Receiver  // a sink of the webhook's docket, beside that of the manifest
}

// gatekeeperValues are the test's: the namespaces of other tests stay as they are without Gatekeeper, and a slow
// machine is no failed review.
const gatekeeperValues = `
image: {repository: docket.test/gatekeeper, pullPolicy: Never}
replicas: 2
auditInterval: 3
audit: {exportSidecar: {image: "docket.test/docket:dev", imagePullPolicy: Never}}
validatingWebhookTimeoutSeconds: 10
validatingWebhookCheckIgnoreFailurePolicy: Ignore
validatingWebhookMatchConditions: &shop
- {name: shop, expression: request.namespace == "SHOP"}
mutatingWebhookMatchConditions: *shop
`

const teamRequired = `apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sRequiredLabels
metadata: {name: team-required}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}], namespaces: [SHOP]}
  parameters: {labels: [team]}
`

// installGatekeeper renders the chart and the manifests, applies them, and waits until the constraint
// holds in both webhook pods. The namespace shop has so many ConfigMaps then that break it.
func installGatekeeper(t *testing.T, violations int) *gatekeeper {
	t.Helper()
	n, chart, helm := nodetest.Start(t), kubetest.GatekeeperChart(t), helmtest.Program(t)
	program := filepath.Join(t.TempDir(), "manager") // as the chart calls it
	must(t, os.Symlink(kubetest.GatekeeperProgram(t), program))
	n.Image(t, "docket.test/"+kubetest.GatekeeperImage, program)
	gatekeeperInUse.Lock()
	t.Cleanup(gatekeeperInUse.Unlock)
	g := &gatekeeper{Namespace: n.Namespace(t), shop: n.Namespace(t), siem: n.Receiver(t)}
	for i := range violations {
		g.shop.Kubectl("create", "configmap", fmt.Sprintf("violation-%d", i))
	}

	root, err := repo.Root()
	must(t, err)
	dir, manifests := t.TempDir(), filepath.Join(root, "manifests", "gatekeeper")
	file := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.CopyFS(dir, os.DirFS(manifests)))
	config, err := os.ReadFile(file("tap/docket.yaml"))
	must(t, err)
	siem := "sinks:\n- name: siem\n  batch: {maxWait: 100ms}\n  http: {url: " + g.siem.URL + "/ingest}\n"
	crds := output(t, exec.Command(helm, "show", "crds", chart))
	for name, text := range map[string]string{
		"crds.yaml":       crds,
		"test.yaml":       strings.ReplaceAll(gatekeeperValues, "SHOP", g.shop.Name),
		"tap/docket.yaml": strings.Replace(string(config), "sinks:\n", siem, 1),
		"kustomization.yaml": `namespace: ` + g.Name + `
resources: [gatekeeper.yaml, audit]
components: [tap]
images:
- {name: docket, newName: docket.test/docket, newTag: dev}
`,
	} {
		must(t, os.WriteFile(file(name), []byte(text), 0o600))
	}
	rendered := output(t, exec.Command(helm, "template", "gatekeeper", chart, "--namespace", g.Name, "--no-hooks",
		"-f", file("audit/values.yaml"), "-f", file("tap/values.yaml"), "-f", file("test.yaml")))
	must(t, os.WriteFile(file("gatekeeper.yaml"), []byte(rendered), 0o600))
	must(t, os.WriteFile(file("all.yaml"), []byte(output(t, n.Command("kubectl", "kustomize", dir))), 0o600))

	g.Kubectl("apply", "--server-side", "-f", file("crds.yaml"))
	t.Cleanup(func() {
		// The context of the test has ended.
		if out, err := n.Kubectl(context.Background(), "delete", "-f", file("all.yaml"), "-f", file("crds.yaml"), "--timeout=10m").CombinedOutput(); err != nil {
			t.Errorf("remove Gatekeeper: %v\n%s", err, out)
		}
	})
	g.Kubectl("wait", "--for=condition=Established", "--timeout=10m", "-f", file("crds.yaml"))
	g.Kubectl("apply", "--server-side", "--validate=strict", "--warnings-as-errors", "-f", file("all.yaml"))
	g.AwaitReady("pod", "-l=gatekeeper.sh/system=yes")
	g.Apply(kubetest.RequiredLabels)
	g.Await("the kind of the constraint", func() error {
		_, err := g.TryKubectl("wait", "--for=condition=Established", "--timeout=10m", "crd/k8srequiredlabels.constraints.gatekeeper.sh")
		return err
	})
	g.Apply(strings.ReplaceAll(teamRequired, "SHOP", g.shop.Name))
	g.Await("the constraint in each pod", func() error {
		const enforced = `jsonpath={.status.byPod[?(@.enforced==true)].id}`
		pods := strings.Fields(g.Kubectl("get", "k8srequiredlabels", "team-required", "-o", enforced))
		if len(pods) < 3 {
			return fmt.Errorf("it holds in %v", pods)
		}
		return nil
	})
	return g
}

// output returns what a program writes to its standard output.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, said.String())
	}
	return string(out)
}

// violation is what is read of a record of Gatekeeper.
type violation struct {
	EventType, ID                   string
	Name, Decision                  string
	ResourceNamespace, ResourceName string
	Complete                        bool
	Violations                      int
}

// violationsIn returns the records among lines that a program has written.
func violationsIn(lines []string) (all []violation) {
	for _, line := range lines {
		var v violation
		if json.Unmarshal([]byte(line), &v) == nil && v.EventType != "" {
			all = append(all, v)
		}
	}
	return all
}

// TestGatekeeper installs the chart of Gatekeeper with manifests/gatekeeper, and lets docket
// export what the audit and the webhook find, and all of it while the webhook's pods are replaced.
func TestGatekeeper(t *testing.T) {
	t.Parallel()
	const violations = 3
	g := installGatekeeper(t, violations)
	g.audited(t, violations)
	g.denied(t)
	stopped := g.stopAudit()
	g.rolled(t)
	stopped(t)
}

// audited waits until docket beside the audit has written out a whole run of it.
func (g *gatekeeper) audited(t *testing.T, want int) {
	t.Helper()
	pod := strings.TrimSpace(g.Kubectl("get", "pods", "-l=gatekeeper.sh/operation=audit", "-o", "name"))
	g.Await("the violations of an audit", func() error {
		found := make(map[string]bool)
		for _, v := range violationsIn(strings.Split(g.Logs(pod, "docket"), "\n")) {
			switch {
			case v.EventType == "violation_audited" && v.Name == "team-required" && v.ResourceNamespace == g.shop.Name:
				found[v.ResourceName] = true
			// The namespace has a ConfigMap of Kubernetes as well: kube-root-ca.crt.
			case v.EventType == "docket.audit.run" && v.Complete && v.Violations == want+1 && len(found) == want+1:
				return nil
			}
		}
		return fmt.Errorf("found so far: %v", found)
	})
}

// stopAudit deletes the pod of the audit. What it returns waits until the pod is gone, and fails unless docket
// has written out each run that Gatekeeper has completed, those after the signal as well.
func (g *gatekeeper) stopAudit() func(t *testing.T) {
	const auditPods = "-l=gatekeeper.sh/operation=audit"
	pod := strings.TrimSpace(g.Kubectl("get", "pods", auditPods, "-o", "jsonpath={.items[0].metadata.name}"))
	manager, docket := g.KeepLog(pod, "manager"), g.KeepLog(pod, "docket")
	g.Kubectl("delete", "pod", pod, "--wait=false")
	return func(t *testing.T) {
		t.Helper()
		g.Kubectl("wait", "--for=delete", "--timeout=10m", "pod/"+pod)
		said, err := manager.Text()
		must(t, err)
		records, err := docket.Text()
		must(t, err)
		before, after, stopped := strings.Cut(said, "Shutting Down")
		completed, last := completedRuns(before), completedRuns(after)
		if !stopped || len(completed) == 0 || len(last) == 0 {
			t.Fatalf("Gatekeeper has completed the runs %v, and %v after its signal", completed, last)
		}
		exported := make(map[string]bool)
		for _, v := range violationsIn(strings.Split(records, "\n")) {
			if v.EventType == "docket.audit.run" {
				exported[v.ID] = true
			}
		}
		for _, id := range append(completed, last...) {
			if !exported[id] {
				t.Errorf("run %s is not exported; Gatekeeper has completed %v, and %v after its signal", id, completed, last)
			}
		}
		t.Logf("Gatekeeper completed %d audits, %d of them after its signal", len(completed)+len(last), len(last))
	}
}

// completedRuns returns the audits that a log of Gatekeeper calls complete.
func completedRuns(log string) (ids []string) {
	for line := range strings.Lines(log) {
		var entry struct {
			EventType string `json:"event_type"`
			ID        string `json:"audit_id"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.EventType == "audit_finished" {
			ids = append(ids, entry.ID)
		}
	}
	return ids
}

// denied finds the record of a denial in the log of docket beside the webhook that gave it.
func (g *gatekeeper) denied(t *testing.T) {
	t.Helper()
	if _, err := g.shop.TryKubectl("create", "configmap", "teamless"); err == nil || !strings.Contains(err.Error(), "[team-required]") {
		t.Fatalf("the webhook said: %v", err)
	}
	g.Await("the record of a denial", func() error {
		log := g.Kubectl("logs", "-l=gatekeeper.sh/operation=webhook", "-c", "docket", "--tail=-1")
		for _, v := range violationsIn(strings.Split(log, "\n")) {
			if v.Decision == "deny" && v.Name == "team-required" && v.ResourceName == "teamless" {
				return nil
			}
		}
		return errors.New("it is not in the logs")
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
