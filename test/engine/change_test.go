package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/kubetest"
)

// everyRequest makes the API server's audit log tell of each request once, without its body.
const everyRequest = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
`

// namespace is where the pods of docket-webhook are.
const namespace = "docket-webhook"

const constraintName = "label-required"

// BenchmarkPolicyChange changes a constraint that so many pods for admission enforce, and one more
// for audit and status. It reports after how many milliseconds the last pod's answers are those of the
// new constraint, and status.byPod says so of each pod, and how many requests a change costs the API
// server, those that renew Leases apart.
//
//	go test -run '^$' -bench PolicyChange -benchtime 20x -timeout 30m ./engine
func BenchmarkPolicyChange(b *testing.B) {
	for _, pods := range []int{3, 10} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			f := startFleet(b, pods)
			f.change(b, 0) // connections are there
			before := f.requests(b)
			var enforced, told time.Duration
			n := 0
			for b.Loop() {
				n++
				e, s := f.change(b, n)
				enforced, told = enforced+e, told+s
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(enforced.Milliseconds())/float64(n), "ms-until-enforced")
			b.ReportMetric(float64(told.Milliseconds())/float64(n), "ms-until-status")
			b.ReportMetric(float64(f.requests(b)-before)/float64(n), "requests")
		})
	}
}

// fleet are the pods of docket-webhook in one cluster, as processes.
type fleet struct {
	*kubetest.Cluster
	constraints dynamic.ResourceInterface
	pods        []*webhook // those for admission
	members     int        // all
}

func startFleet(b *testing.B, pods int) *fleet {
	b.Helper()
	f := &fleet{Cluster: kubetest.Start(b, kubetest.Options{AuditPolicy: everyRequest}), members: pods + 1}
	client, err := dynamic.NewForConfig(&rest.Config{Host: f.Server, Transport: f.Client().Transport, QPS: -1})
	if err != nil {
		b.Fatal(err)
	}
	f.constraints = client.Resource(schema.GroupVersionResource{Group: "constraints.gatekeeper.sh", Version: "v1beta1", Resource: "k8srequiredlabels"})
	root, err := repo.Root()
	if err != nil {
		b.Fatal(err)
	}
	crds := filepath.Join(root, "manifests", "docket-webhook", "crds.yaml")
	f.Kubectl("create", "namespace", namespace)
	f.Kubectl("apply", "-f", crds)
	f.Kubectl("wait", "--for=condition=Established", "--timeout=4m", "-f", crds)
	for i := range pods {
		f.pods = append(f.pods, f.start(b, fmt.Sprintf("docket-webhook-%d", i), "--operation", "webhook"))
	}
	f.start(b, "docket-audit", "--operation", "audit", "--operation", "status", "--audit-interval", "0")
	f.Apply(kubetest.RequiredLabels)
	f.Apply(`apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sRequiredLabels
metadata: {name: ` + constraintName + `}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}]}
  parameters: {labels: [none]}
`)
	return f
}

// start makes the object of a pod that no kubelet knows, and runs its process.
func (f *fleet) start(b *testing.B, name string, args ...string) *webhook {
	b.Helper()
	f.Apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s, labels: {status.docket.dev/by-pod: "true"}}
spec: {containers: [{name: engine, image: docket-webhook}]}
`, name, namespace))
	uid := f.Kubectl("--namespace", namespace, "get", "pod", name, "-o", "jsonpath={.metadata.uid}")
	w, _ := startProcess(b, []string{"POD_NAME=" + name, "POD_NAMESPACE=" + namespace, "POD_UID=" + uid},
		append([]string{"--kubeconfig", f.Kubeconfig, "--docket-address", ""}, args...)...)
	return w
}

// change makes the constraint ask for another label, and returns after what time each pod asks for it and
// the constraint's status tells so.
func (f *fleet) change(b *testing.B, n int) (enforced, told time.Duration) {
	b.Helper()
	label := fmt.Sprintf("label-%d", n)
	began := time.Now()
	patch := fmt.Appendf(nil, `{"spec": {"parameters": {"labels": [%q]}}}`, label)
	changed, err := f.constraints.Patch(b.Context(), constraintName, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		b.Fatal(err)
	}
	review := (&request{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"}}}).review(b, "change")
	for _, p := range f.pods {
		err = poll.Every(5*time.Millisecond, awaitTimeout, func() error {
			a, _, err := p.ask(review)
			if err == nil && !strings.Contains(a.Message, `"`+label+`"`) {
				err = fmt.Errorf("the answer is %v", a)
			}
			return err
		})
		if err != nil {
			b.Fatalf("wait for the new constraint: %v", err)
		}
	}
	enforced = time.Since(began)
	await(b, "the status of each pod", func() error { return f.told(b.Context(), changed.GetGeneration()) })
	return enforced, time.Since(began)
}

// told returns nil when the constraint's status says of each pod that it enforces that generation.
func (f *fleet) told(ctx context.Context, generation int64) error {
	c, err := f.constraints.Get(ctx, constraintName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	byPod, _, err := unstructured.NestedSlice(c.Object, "status", "byPod")
	enforcing := 0
	for _, p := range byPod {
		if said, ok := p.(map[string]any); ok && said["enforcedGeneration"] == generation {
			enforcing++
		}
	}
	if enforcing != f.members {
		return fmt.Errorf("generation %d: %+v: %w", generation, byPod, err)
	}
	return err
}

// requests counts those of docket-webhook so far, without those for Leases and watches, which last.
func (f *fleet) requests(b *testing.B) (n int) {
	b.Helper()
	log, err := os.Open(f.AuditLog)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct{ Verb, UserAgent string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			b.Fatal(err)
		}
		if strings.HasPrefix(event.UserAgent, "docket-webhook") && !strings.HasSuffix(event.UserAgent, "/lease") && event.Verb != "watch" {
			n++
		}
	}
	if err := lines.Err(); err != nil {
		b.Fatal(err)
	}
	return n
}
