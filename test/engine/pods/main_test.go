// Package pods tests docket-webhook as manifests/docket-webhook runs it: three pods behind a Service on a
// real node, docket beside each.
//
//	main_test.go      the installation
//	load_test.go      requests through the API server, and what became of them
//	rolling_test.go   pods that are replaced, under load, with the rules for that and without
//	audited_test.go   an audit
//	broken_test.go    a template that cannot be loaded
//	killed_test.go    processes that are killed
package pods

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/kubetest"
	"github.com/docket-export/docket/test/nodetest"
)

// rolling is how long pods are replaced under load: half an hour in make pods.
var rolling = flag.Duration("rolling", 3*time.Minute, "how long pods are replaced under load")

func TestMain(m *testing.M) { os.Exit(nodetest.Main(m)) }

// installation is docket-webhook on the node.
type installation struct {
	*nodetest.Namespace // of the objects that it is asked about
	siem                *nodetest.Receiver

	kustomization string // directory
	pair          testcert.Pair
	others        []string // the policies that no test changes, as kind/name
}

const (
	system     = "docket-webhook" // namespace of the manifests
	deployment = "docket-webhook" // of the webhook
)

// policies are one that the load is denied by, and one that tests break. The others, those of testdata/policies,
// are beside them, data of the inventory among them: pods are Ready with all of it only.
const policies = `apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sRequiredLabels
metadata: {name: team-required}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}], namespaces: [SHOP]}
  parameters: {labels: [team]}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: ShortName
metadata: {name: name-short}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [Secret]}], namespaces: [SHOP]}
  parameters: {most: 10}
`

const shortName = `apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: shortname}
spec:
  crd:
    spec:
      names: {kind: ShortName}
      validation:
        openAPIV3Schema:
          type: object
          properties: {most: {type: integer}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        validations:
        - expression: size(variables.anyObject.metadata.name) <= variables.params.most
          message: MESSAGE
`

// install applies the manifests and the policies, and returns when each pod enforces them.
func install(t *testing.T) *installation {
	t.Helper()
	n := nodetest.Start(t)
	i := &installation{Namespace: n.Namespace(t), siem: n.Receiver(t)}
	root, err := repo.Root()
	must(t, err)
	program := filepath.Join(t.TempDir(), "docket-webhook")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./cmd/docket-webhook")
	build.Dir, build.Env = filepath.Join(root, "webhook", "engine"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build docket-webhook: %v\n%s", err, out)
	}
	n.Image(t, "docket.test/docket-webhook:dev", program)
	i.configure(t, root)
	i.Kubectl("create", "namespace", system)
	i.Kubectl("--namespace", system, "create", "secret", "generic", "docket-webhook-tls", "--type=kubernetes.io/tls",
		"--from-file=tls.crt="+i.pair.CertFile, "--from-file=tls.key="+i.pair.KeyFile)
	t.Cleanup(func() { i.end(t) })
	i.Await("the manifests to be taken", i.apply)
	i.settle()
	own := kubetest.RequiredLabels + "---\n" + strings.ReplaceAll(shortName, "MESSAGE", "the name is too long") +
		"---\n" + strings.ReplaceAll(policies, "SHOP", i.Name)
	beside := testdata(t)
	// A constraint is taken once the pods have made its kind of the template.
	i.Await("the policies to be taken", func() error { return errors.Join(i.put(own), i.put(beside)) })
	if i.others = i.constraintsOf(t, beside); len(i.others) < 12 {
		t.Fatalf("beside those of the test there are the policies %q, want 12 or more", i.others)
	}
	i.others = append(i.others, "k8srequiredlabels.constraints.gatekeeper.sh/team-required")
	i.Await("each pod to enforce the policies", i.othersEnforced)
	i.awaitEnforced("shortname", "name-short")
	t.Logf("%d policies", len(i.others)+1)
	return i
}

// testdata returns the policies of testdata with their settings, which are those of docket-webhook here.
func testdata(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../testdata/policies/*.yaml")
	must(t, err)
	var all []string
	for _, file := range append(files, "../testdata/settings.yaml") {
		text, err := os.ReadFile(file)
		must(t, err)
		all = append(all, string(text))
	}
	return strings.ReplaceAll(strings.Join(all, "---\n"), "namespace: gatekeeper-system", "namespace: "+system)
}

// constraintsOf returns the constraints among manifests.
func (i *installation) constraintsOf(t *testing.T, manifests string) (names []string) {
	t.Helper()
	cmd := i.Node.Kubectl(t.Context(), "get", "-o", "name", "-f", "-")
	cmd.Stdin = strings.NewReader(manifests)
	out, err := cmd.Output()
	must(t, err)
	for _, name := range strings.Fields(string(out)) {
		if strings.Contains(name, ".constraints.gatekeeper.sh/") {
			names = append(names, name)
		}
	}
	return names
}

// configure writes a kustomization of the manifests as they are, with the images of the node, the certificate of a
// CA of the test, and a sink that the test reads. A slow machine is no failed review.
func (i *installation) configure(t *testing.T, root string) {
	t.Helper()
	ca := testcert.NewCA(t)
	i.pair = ca.Issue(t, "docket-webhook."+system+".svc")
	dir := t.TempDir()
	i.kustomization = filepath.Join(dir, "manifests", "mine")
	must(t, os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(filepath.Join(root, "manifests"))))
	must(t, os.Mkdir(i.kustomization, 0o755))
	config, err := os.ReadFile(filepath.Join(root, "manifests", "docket-webhook", "docket.yaml"))
	must(t, err)
	for name, text := range map[string]string{
		"docket.yaml": strings.Replace(string(config), "sinks:\n", "sinks:\n- name: siem\n  batch: {maxWait: 100ms}\n  http: {url: "+i.siem.URL+"/ingest}\n", 1),
		"kustomization.yaml": `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../docket-webhook]
images:
- {name: docket, newName: docket.test/docket, newTag: dev}
- {name: docket-webhook, newName: docket.test/docket-webhook, newTag: dev}
configMapGenerator:
- {name: docket, namespace: ` + system + `, behavior: replace, files: [docket.yaml], options: {disableNameSuffixHash: true}}
patches:
- target: {kind: ValidatingWebhookConfiguration}
  patch: |-
    - {op: add, path: /webhooks/0/clientConfig/caBundle, value: ` + base64.StdEncoding.EncodeToString([]byte(ca.PEM)) + `}
    - {op: replace, path: /webhooks/0/timeoutSeconds, value: 10}
`,
	} {
		must(t, os.WriteFile(filepath.Join(i.kustomization, name), []byte(text), 0o600))
	}
}

// apply applies the kustomization: what tests have changed of it is as it was.
func (i *installation) apply() error {
	out, err := i.TryKubectl("--namespace", system, "apply", "--server-side", "--force-conflicts", "-k", i.kustomization)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// end shows what a failed test leaves, and removes what it has made in the whole cluster.
func (i *installation) end(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // that of the test has ended
	defer cancel()
	kubectl := func(args ...string) string {
		out, err := i.Node.Kubectl(ctx, append([]string{"--namespace", system}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Sprintf("%s%v", out, err)
		}
		return string(out)
	}
	if t.Failed() {
		t.Log(kubectl("get", "pods", "-o", "wide"))
		t.Log(kubectl("get", "events", "--sort-by=.lastTimestamp", "-o", "custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message", "--no-headers"))
		t.Log(kubectl("logs", "-l=app.kubernetes.io/part-of=docket", "--all-containers", "--prefix", "--tail=25"))
	}
	// The node ends with this test program.
	kubectl("delete", "validatingwebhookconfiguration", "docket-webhook", "--ignore-not-found")
}

// podState is what status.byPod says of one pod.
type podState struct {
	ID                 string
	ObservedGeneration int64
	EnforcedGeneration int64
	Phase, Reason      string
	Errors             []struct{ Code, Message string }
}

// state is what a template or constraint says of itself.
type state struct {
	Kind     string
	Metadata struct {
		Name       string
		Generation int64
	}
	Status struct {
		ByPod  []podState
		Docket struct {
			Phase, Reason   string
			Pods, Enforcing int
		}
	}
}

// state reads that of a template or constraint.
func (i *installation) state(kind, name string) (s state, err error) {
	out, err := i.TryKubectl("get", kind, name, "-o", "json")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal([]byte(out), &s)
}

// all are the pods that hold policies: three webhooks and the audit.
const all = 4

// enforced returns nil when each pod enforces the policy as it is now.
func (s state) enforced() error {
	d := s.Status.Docket
	if d.Phase != "Active" || d.Pods != all || d.Enforcing != all || len(s.Status.ByPod) != all {
		return fmt.Errorf("%s %s: %+v", s.Kind, s.Metadata.Name, s.Status)
	}
	for _, p := range s.Status.ByPod {
		if p.Phase != "Active" || p.EnforcedGeneration != s.Metadata.Generation || p.ObservedGeneration != s.Metadata.Generation {
			return fmt.Errorf("%s %s: generation %d, pod %+v", s.Kind, s.Metadata.Name, s.Metadata.Generation, p)
		}
	}
	return nil
}

// othersEnforced returns nil when each pod enforces each policy that no test changes.
func (i *installation) othersEnforced() error {
	out, err := i.TryKubectl(append([]string{"get", "-o", "json"}, i.others...)...)
	if err != nil {
		return err
	}
	var list struct{ Items []state }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return err
	}
	if len(list.Items) != len(i.others) {
		return fmt.Errorf("there are %d of %d policies", len(list.Items), len(i.others))
	}
	var errs []error
	for _, s := range list.Items {
		errs = append(errs, s.enforced())
	}
	return errors.Join(errs...)
}

func (i *installation) awaitEnforced(kind, name string) {
	i.Await("each pod to enforce "+kind+" "+name, func() error {
		s, err := i.state(kind, name)
		if err != nil {
			return err
		}
		return s.enforced()
	})
}

// settle waits until the Deployments have their pods of the last revision, ready, and no others.
func (i *installation) settle() {
	for _, d := range []string{deployment, "docket-audit"} {
		i.Kubectl("--namespace", system, "rollout", "status", "deployment/"+d, "--timeout=4m")
	}
	i.Await("old pods to be gone", func() error {
		if pods := strings.Fields(i.Kubectl("--namespace", system, "get", "pods", "-o", "name")); len(pods) != all {
			return fmt.Errorf("there are %v", pods)
		}
		return nil
	})
	i.AwaitReady("--namespace", system, "pods", "--all")
}

// restart replaces all pods of the webhook.
func (i *installation) restart() {
	i.Kubectl("--namespace", system, "rollout", "restart", "deployment/"+deployment)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
