package nodetest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/poll"
)

const (
	// kubectlTimeout bounds one run of kubectl.
	kubectlTimeout = 5 * time.Minute
	// awaitTimeout is far beyond what a kubelet needs for any one step.
	awaitTimeout = 5 * time.Minute
)

// Namespace is a namespace of a test. Its methods report what goes wrong through that test.
type Namespace struct {
	Name string
	Node *Node

	t testing.TB
}

// Namespace makes a namespace that enforces the Pod Security profile "restricted". It ends with
// the test, with all that is in it.
func (n *Node) Namespace(t testing.TB) *Namespace {
	t.Helper()
	return n.namespace(t, "restricted")
}

// PrivilegedNamespace is Namespace for pods that need what "restricted" forbids.
func (n *Node) PrivilegedNamespace(t testing.TB) *Namespace {
	t.Helper()
	return n.namespace(t, "privileged")
}

var notInNames = regexp.MustCompile("[^a-z0-9]+")

func (n *Node) namespace(t testing.TB, security string) *Namespace {
	t.Helper()
	shared.mu.Lock()
	n.count++
	name := fmt.Sprintf("%.40s-%d", strings.Trim(notInNames.ReplaceAllString(strings.ToLower(t.Name()), "-"), "-"), n.count)
	shared.mu.Unlock()
	ns := &Namespace{Name: name, Node: n, t: t}
	ns.Apply(fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata:
  name: %s
  labels: {pod-security.kubernetes.io/enforce: %s}
`, name, security))
	t.Cleanup(ns.end)
	// No pod is admitted without it.
	ns.Await("the service account", func() error {
		_, err := ns.TryKubectl("get", "serviceaccount", "default")
		return err
	})
	return ns
}

// end shows what a failed test leaves, and removes the namespace without waiting for pods
// to stop in order.
func (ns *Namespace) end() {
	// The context of the test has ended.
	ctx, cancel := context.WithTimeout(context.Background(), kubectlTimeout)
	defer cancel()
	if ns.t.Failed() {
		for _, args := range [][]string{
			{"get", "pods", "-o", "wide"},
			{"get", "events", "--sort-by=.lastTimestamp", "-o", "custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message", "--no-headers"},
		} {
			out, _ := ns.kubectl(ctx, "", args...)
			ns.t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
		}
		pods, _ := ns.kubectl(ctx, "", "get", "pods", "-o", "name")
		for _, pod := range strings.Fields(pods) {
			out, _ := ns.kubectl(ctx, "", "logs", pod, "--all-containers", "--prefix", "--tail=15")
			ns.t.Logf("the logs of %s\n%s", pod, out)
		}
	}
	_, _ = ns.kubectl(ctx, "", "delete", "deployments,statefulsets,replicasets,jobs,pods", "--all", "--grace-period=0", "--force", "--wait=false")
	if _, err := ns.kubectl(ctx, "", "delete", "namespace", ns.Name, "--wait=false"); err != nil {
		ns.t.Error(err)
	}
}

// Apply applies a manifest with strict validation. A warning is a failure.
func (ns *Namespace) Apply(manifest string) {
	ns.t.Helper()
	if _, err := ns.kubectl(ns.t.Context(), manifest, "apply", "--validate=strict", "--warnings-as-errors", "-f", "-"); err != nil {
		ns.t.Fatal(err)
	}
}

// Kubectl runs kubectl in the namespace and returns what it prints.
func (ns *Namespace) Kubectl(args ...string) string {
	ns.t.Helper()
	out, err := ns.TryKubectl(args...)
	if err != nil {
		ns.t.Fatal(err)
	}
	return out
}

// TryKubectl is Kubectl that may fail. The error has what kubectl said.
func (ns *Namespace) TryKubectl(args ...string) (string, error) {
	return ns.kubectl(ns.t.Context(), "", args...)
}

func (ns *Namespace) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kubectlTimeout)
	defer cancel()
	var out, said bytes.Buffer
	cmd := ns.Node.Kubectl(ctx, append([]string{"--namespace", ns.Name}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return out.String(), nil
}

// Volume makes a local PersistentVolume of 1Gi for a claim of the namespace, without a storage class.
// It returns its directory on this machine. Both end with the test.
func (ns *Namespace) Volume(claim string) (dir string) {
	ns.t.Helper()
	name := ns.Name + "-" + claim
	dir = filepath.Join(ns.Node.Dir, "lib", "volumes", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		ns.t.Fatal(err)
	}
	ns.Apply(fmt.Sprintf(`apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: %s, name: %s}
  local: {path: /var/lib/volumes/%[1]s}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}]}}
`, name, ns.Name, claim))
	ns.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), kubectlTimeout)
		defer cancel()
		if _, err := ns.kubectl(ctx, "", "delete", "persistentvolume", name, "--wait=false"); err != nil {
			ns.t.Error(err)
		}
	})
	return dir
}

// Await calls cond until it returns nil.
func (ns *Namespace) Await(what string, cond func() error) {
	ns.t.Helper()
	// Most conditions run kubectl, which takes a tenth of a second of a processor.
	if err := poll.Every(300*time.Millisecond, awaitTimeout, cond); err != nil {
		ns.t.Fatalf("wait for %s: %v", what, err)
	}
}

// AwaitReady waits until pods are Ready: "pod/a" or "-l=app=engine".
func (ns *Namespace) AwaitReady(pods ...string) {
	ns.t.Helper()
	ns.Await("pods to be Ready", func() error {
		// It fails at once while there is none.
		_, err := ns.TryKubectl(append([]string{"wait", "--for=condition=Ready", "--timeout=60s"}, pods...)...)
		return err
	})
}

// Logs returns the log of a container.
func (ns *Namespace) Logs(pod, container string, args ...string) string {
	ns.t.Helper()
	return ns.Kubectl(append([]string{"logs", pod, "-c", container}, args...)...)
}

// Log keeps the log of a container readable after the pod is gone, for its first run.
type Log struct{ file *os.File }

// KeepLog opens the log of a container that has been started.
func (ns *Namespace) KeepLog(pod, container string) *Log {
	ns.t.Helper()
	uid := ns.Kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
	f, err := os.Open(filepath.Join(ns.Node.Dir, "log", "pods", ns.Name+"_"+pod+"_"+uid, container, "0.log"))
	if err != nil {
		ns.t.Fatal(err)
	}
	ns.t.Cleanup(func() { f.Close() })
	return &Log{f}
}

// Text returns what the container has written so far to both its outputs.
func (l *Log) Text() (string, error) {
	var text strings.Builder
	lines := bufio.NewScanner(io.NewSectionReader(l.file, 0, 1<<62))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// time stream F|P text
		if parts := strings.SplitN(lines.Text(), " ", 4); len(parts) == 4 {
			text.WriteString(parts[3])
			if parts[2] == "F" {
				text.WriteByte('\n')
			}
		}
	}
	return text.String(), lines.Err()
}
