package node

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/helmtest"
	"github.com/docket-export/docket/test/internal/artifact"
	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/kubetest"
	"github.com/docket-export/docket/test/nodetest"
)

// TestInstall follows docs/install.md from its beginning to its end: every command, as it stands there, in
// a directory that is empty at first, and on a cluster that has what the reader brings.
func TestInstall(t *testing.T) {
	t.Parallel()
	page := document.Read(t, "install.md")
	r := newReader(t)
	r.hasGatekeeper(t)
	r.has(t, readersEngine+"---\n"+readersVolume+"---\n"+kubetest.CRDs(t), "policy", "docket")
	r.writes(t, "engine.yaml", readersEngine)
	r.must(t, "kubectl -n policy rollout status deployment engine --timeout=2m")
	if out, err := r.node.Inside("mkdir", "/var/lib/install").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, heading := range page.Sections() {
		began := time.Now()
		r.follow(t, page.Section(t, heading))
		t.Logf("%s: %.1f s", heading, time.Since(began).Seconds())
	}
}

// reader is a person at a shell, in an empty directory.
type reader struct {
	node *nodetest.Node
	dir  string
	env  []string
}

// newReader gives the reader what stands in for the world outside of the cluster.
func newReader(t *testing.T) *reader {
	t.Helper()
	n := nodetest.Start(t)
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	values := filepath.Join(bin, "gatekeeper.yaml")
	must(t, os.WriteFile(values, []byte(strings.NewReplacer("SHOP", "shop", "replicas: 2", "replicas: 1").Replace(gatekeeperValues)), 0o600))
	image := filepath.Join(bin, "image.tar")
	must(t, nodetest.WriteImage(image, "registry.example.com/docket:1.0.0", filepath.Join(n.Dir, "docket")))
	importImage := n.Inside("ctr", "-n", "k8s.io", "images", "import", "--snapshotter", "overlayfs", "-").Args
	for name, script := range map[string]string{
		// The tree as it is, committed or not.
		"git": `[ "$*" = "clone https://github.com/docket-export/docket" ] && ln -s '` + root + `' docket`,
		// The node has an image at once that others build and pull from a registry.
		"make": `[ "$3" = push ] && exec ` + strings.Join(importImage, " ") + " <'" + image + `'
exec ` + artifact.Program(t, "make make") + ` -C docket build`,
		// The chart of Gatekeeper is a folder here. Its hooks, which label a namespace, would need an image.
		"helm": `[ "$1" = repo ] && exit
hooks=
for word; do
	shift
	case $word in
	gatekeeper/gatekeeper) hooks=--no-hooks; set -- "$@" '` + kubetest.GatekeeperChart(t) + "' --values '" + values + `' ;;
	*) set -- "$@" "$word" ;;
	esac
done
exec '` + helmtest.Program(t) + `' "$@" $hooks`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r := &reader{node: n, dir: t.TempDir(), env: append(n.Command("true").Env, "KUBECACHEDIR="+t.TempDir())}
	for i, v := range r.env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			r.env[i] = "PATH=" + bin + ":" + path
		}
	}
	return r
}

// readersEngine is a Deployment as the page takes it for granted. It does nothing.
const readersEngine = `apiVersion: apps/v1
kind: Deployment
metadata: {name: engine, namespace: policy}
spec:
  selector: {matchLabels: {app: engine}}
  template:
    metadata: {labels: {app: engine}}
    spec:
      automountServiceAccountToken: false
      containers:
      - name: engine
        image: docket.test/pause:dev
        imagePullPolicy: Never
        securityContext:
          runAsUser: 10001
          runAsNonRoot: true
          allowPrivilegeEscalation: false
          capabilities: {drop: [ALL]}
          seccompProfile: {type: RuntimeDefault}
`

// readersVolume is what a storage class gives.
const readersVolume = `apiVersion: v1
kind: PersistentVolume
metadata: {name: install}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: docket, name: docket-queue-docket-0}
  local: {path: /var/lib/install}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: Exists}]}]}}
`

// writes makes a file in the reader's directory.
func (r *reader) writes(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// has gives the reader namespaces that enforce the Pod Security profile "restricted", and what is in
// them before. They end with the test.
func (r *reader) has(t *testing.T, manifest string, namespaces ...string) {
	t.Helper()
	for _, name := range namespaces {
		t.Cleanup(func() {
			if out, err := r.node.Kubectl(context.Background(), "delete", "namespace", name, "--wait=false").CombinedOutput(); err != nil {
				t.Errorf("delete namespace %s: %v\n%s", name, err, out)
			}
		})
		manifest = "{apiVersion: v1, kind: Namespace, metadata: {name: " + name + ", labels: {pod-security.kubernetes.io/enforce: restricted}}}\n---\n" + manifest
	}
	cmd := r.node.Kubectl(t.Context(), "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// hasGatekeeper gives the reader the release gatekeeper, without docket, and a namespace shop whose
// ConfigMaps violate a constraint.
func (r *reader) hasGatekeeper(t *testing.T) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "manager") // as the chart calls it
	must(t, os.Symlink(kubetest.GatekeeperProgram(t), program))
	r.node.Image(t, "docket.test/"+kubetest.GatekeeperImage, program)
	gatekeeperInUse.Lock()
	t.Cleanup(gatekeeperInUse.Unlock)
	r.has(t, "", "shop")
	t.Cleanup(func() {
		r.must(t, "helm uninstall gatekeeper --namespace gatekeeper-system --no-hooks; kubectl delete namespace gatekeeper-system --wait=false")
	})
	r.must(t, "helm install gatekeeper gatekeeper/gatekeeper --namespace gatekeeper-system --create-namespace")
	r.writes(t, "constraint.yaml", strings.ReplaceAll(teamRequired, "SHOP", "shop"))
	r.writes(t, "template.yaml", kubetest.RequiredLabels)
	r.must(t, `kubectl apply -f template.yaml
kubectl wait --for=create --timeout=2m crd/k8srequiredlabels.constraints.gatekeeper.sh
kubectl wait --for=condition=Established --timeout=2m crd/k8srequiredlabels.constraints.gatekeeper.sh
kubectl apply -f constraint.yaml
rm template.yaml constraint.yaml`)
}

// must runs commands that the page does not have.
func (r *reader) must(t *testing.T, commands string) {
	t.Helper()
	if out, err := r.run(t, commands); err != nil {
		t.Fatalf("%s%s%v", commands, out, err)
	}
}

// stepTimeout bounds one block of commands, most of which wait for pods.
const stepTimeout = 3 * time.Minute

// follow does what a section says. A block whose output is not yet that of the page is run again, as a
// reader does, and in between another ConfigMap is denied.
func (r *reader) follow(t *testing.T, section document.Page) {
	t.Helper()
	for _, step := range section.Steps() {
		looks := strings.HasPrefix(step.Commands, "kubectl ") && strings.Contains(step.Commands, " logs ") && strings.Count(step.Commands, "\n") == 1
		var said string
		err := poll.Until(stepTimeout, func() (err error) {
			if said, err = r.run(t, step.Commands); err != nil && !looks {
				t.Fatalf("%s%s%v", step.Commands, said, err)
			}
			if err = errors.Join(err, document.Shows(said, step.Output)); err != nil {
				_, _ = r.run(t, "kubectl -n shop create configmap teamless")
			}
			return err
		})
		t.Logf("%s%s", step.Commands, said)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// run runs commands, and returns all that they print. They reach the cluster and nothing beyond: the modules that
// the image is made of are there, as the node has images of it.
func (r *reader) run(t *testing.T, commands string) (string, error) {
	// A cleanup's test has no context any more.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stepTimeout)
	defer cancel()
	shell := r.node.Command("bash", "-euo", "pipefail", "-c", commands)
	cmd := exec.CommandContext(ctx, shell.Path, shell.Args[1:]...)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}
