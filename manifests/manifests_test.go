package manifests_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli"
	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/config"
)

//go:generate go test -run TestWritten -update .

var update = flag.Bool("update", false, "write the manifests that are made of the commands")

// head is the first line of each.
const head = "# Made of %s by: go generate ./manifests\n"

// statefulSet lacks the pod, and the size of its volume.
const statefulSet = `apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: docket
  labels: {app.kubernetes.io/name: docket, app.kubernetes.io/part-of: docket}
spec:
  replicas: 1
  serviceName: docket
  selector:
    matchLabels: {app.kubernetes.io/name: docket}
  template:
    metadata:
      labels: {app.kubernetes.io/name: docket, app.kubernetes.io/part-of: docket}
    spec:
      automountServiceAccountToken: false
  # Survives the deletion of the pod and, where the storage class has network storage, the loss of the node.
  volumeClaimTemplates:
  - metadata: {name: docket-queue}
    spec:
      accessModes: [ReadWriteOnce]
      resources:
        requests: {storage: SIZE}
`

// deployment lacks docket's part of the pod, and the memory and security of tap.
const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: docket-tap
  labels: {app.kubernetes.io/name: docket-tap, app.kubernetes.io/part-of: docket}
spec:
  replicas: 2
  # The API server always has a tap to ask.
  strategy:
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels: {app.kubernetes.io/name: docket-tap}
  template:
    metadata:
      labels: {app.kubernetes.io/name: docket-tap, app.kubernetes.io/part-of: docket}
    spec:
      automountServiceAccountToken: false
      containers:
      - name: tap
        image: docket
        args: [tap, -f, /etc/docket/tap.yaml]
        ports:
        - {name: docket-tap, containerPort: 8443}
        - {name: tap-metrics, containerPort: 9466}
        livenessProbe:
          httpGet: {path: /livez, port: tap-metrics}
          periodSeconds: 10
          timeoutSeconds: 5
        readinessProbe:
          httpGet: {path: /readyz, port: tap-metrics}
          periodSeconds: 5
          timeoutSeconds: 5
        securityContext: {}
        resources:
          requests: {cpu: 50m, memory: 64Mi}
          limits: {memory: LIMIT}
        volumeMounts:
        - {name: docket-config, mountPath: /etc/docket, readOnly: true}
        - {name: docket-socket, mountPath: /run/docket}
        - {name: docket-tls, mountPath: /etc/docket-tls, readOnly: true}
        - {name: docket-upstream, mountPath: /etc/docket-upstream, readOnly: true}
      volumes:
      - name: docket-tls
        secret: {secretName: docket-tls, defaultMode: 0440}
      - name: docket-upstream
        secret: {secretName: docket-upstream, defaultMode: 0440}
`

// What the commands say is in the manifests. -update writes it.
func TestWritten(t *testing.T) {
	for file, made := range map[string]struct{ of, text string }{
		"sidecar/patch.yaml":           {"overlays/sidecar/docket.yaml", sidecar(t, "overlays/sidecar", "-o", "patch")},
		"statefulset/statefulset.yaml": {"docket.yaml", statefulSetOf(t)},
		"tap/deployment.yaml":          {"docket.yaml and tap.yaml", deploymentOf(t)},
	} {
		text := fmt.Sprintf(head, made.of) + made.text
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%s is not what the commands say: %v: go generate ./manifests", file, err)
		}
	}
}

// The patch that docket-webhook gets, and others, has the sizes of its docket.yaml.
func TestPatch(t *testing.T) {
	if got, want := sidecar(t, "docket-webhook", "-o", "patch"), sidecar(t, "overlays/sidecar", "-o", "patch"); got != want {
		t.Errorf("docket-webhook/docket.yaml needs another patch than that of the component sidecar:\n%s\nwant\n%s", got, want)
	}
}

// statefulSetOf is the StatefulSet of docket by itself.
func statefulSetOf(t *testing.T) string {
	t.Helper()
	pod := parse(t, sidecar(t, "statefulset", "--plain", "--volume", "ephemeral", "--shutdown-delay", "0s", "--secret", "docket-tls=/etc/docket-tls"))
	volumes := member(t, pod, "volumes")
	for i, v := range volumes.Content {
		if member(t, v, "name").Value == "docket-queue" {
			size := member(t, v, "ephemeral", "volumeClaimTemplate", "spec", "resources", "requests", "storage").Value
			volumes.Content = append(volumes.Content[:i:i], volumes.Content[i+1:]...)
			object := parse(t, strings.Replace(statefulSet, "SIZE", size, 1))
			spec := member(t, object, "spec", "template", "spec")
			spec.Content = append(spec.Content, pod.Content...)
			return written(t, object)
		}
	}
	t.Fatal("the pod has no volume docket-queue")
	return ""
}

// tapTime is what docket tap takes to stop: shutdownDelay, and what is under way.
const tapTime = "30s"

// deploymentOf is the Deployment of docket tap.
func deploymentOf(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("tap/tap.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, problems := tapcmd.Load(text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	const step = 16 << 20
	limit := config.Size((cfg.MemoryCeiling() + step - 1) / step * step)
	object := parse(t, strings.Replace(deployment, "LIMIT", limit.String(), 1))
	spec := member(t, object, "spec", "template", "spec")
	pod := parse(t, sidecar(t, "tap", "--shutdown-delay", tapTime, "--config-map", "docket-tap"))
	security := *member(t, member(t, pod, "initContainers").Content[0], "securityContext")
	*member(t, member(t, spec, "containers").Content[0], "securityContext") = security
	volumes := member(t, pod, "volumes")
	volumes.Content = append(volumes.Content, member(t, spec, "volumes").Content...)
	for i := 0; i < len(pod.Content); i += 2 {
		if key := pod.Content[i]; key.Value == "volumes" {
			*member(t, spec, "volumes") = *volumes
		} else {
			spec.Content = append(spec.Content, key, pod.Content[i+1])
		}
	}
	return written(t, object)
}

// sidecar is what docket kubernetes sidecar says of the configuration in dir.
func sidecar(t *testing.T, dir string, args ...string) string {
	t.Helper()
	root := cli.Root(builtin.Kinds())
	root.SetArgs(append([]string{"kubernetes", "sidecar", "-f", filepath.Join(dir, "docket.yaml")}, args...))
	var out bytes.Buffer
	root.SetOut(&out)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return out.String()
}

// parse returns the mapping in text, without the comment at its top.
func parse(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		t.Fatal(err)
	}
	n.Content[0].HeadComment, n.Content[0].Content[0].HeadComment = "", ""
	return n.Content[0]
}

// member returns what is at the path of keys in n.
func member(t *testing.T, n *yaml.Node, path ...string) *yaml.Node {
	t.Helper()
	for _, key := range path {
		found := false
		for i := 0; i < len(n.Content) && !found; i += 2 {
			if found = n.Content[i].Value == key; found {
				n = n.Content[i+1]
			}
		}
		if !found {
			t.Fatalf("%v: there is no %s", path, key)
		}
	}
	return n
}

func written(t *testing.T, n *yaml.Node) string {
	t.Helper()
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(n); err != nil {
		t.Fatal(fmt.Errorf("write YAML: %w", err))
	}
	return b.String()
}
