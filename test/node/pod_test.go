package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/nodetest"
)

// pod is a pod named engine: the program engine, and docket as docket kubernetes sidecar
// writes it.
type pod struct {
	engine  string           // arguments of the program engine, separated by blanks
	config  string           // keys of docket.yaml beside those of every pod
	sinks   string           // of docket.yaml; a receiver by default
	flags   []string         // of docket kubernetes sidecar
	claim   string           // of the pod, that a volume is made for
	volumes []any            // more volumes of the pod
	change  func(spec parts) // makes a mistake that the command does not make
}

// parts is a piece of a manifest.
type parts = map[string]any

// configFile is docket.yaml of a pod, whose sink is r.
func (p pod) configFile(r *nodetest.Receiver) string {
	sinks := p.sinks
	if sinks == "" {
		sinks = `- name: siem
  batch: {maxWait: 100ms}
  retry: {initialBackoff: 100ms, maxBackoff: 1s}
  deadLetters: {maxBytes: 32Mi}
  http: {url: "` + r.URL + `/ingest"}
`
	}
	config := `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: engine
  unix: {path: /run/docket/docket.sock, mode: "0660"}
queue: {directory: /var/lib/docket/queue, maxBytes: 16Mi}
sinks:
` + sinks + `shutdown: {drainTimeout: 3s}
` + p.config
	if !strings.Contains(p.config, "metrics:") {
		config += "metrics: {address: \":9465\"}\n"
	}
	return config
}

// manifest is the pod with its ConfigMap.
func (p pod) manifest(t *testing.T, n *nodetest.Node, r *nodetest.Receiver) string {
	t.Helper()
	config := p.configFile(r)
	file := filepath.Join(t.TempDir(), "docket.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := make(parts)
	out := n.Docket(t, append([]string{"kubernetes", "sidecar", "-f", file, "--image", "docket.test/docket:dev", "--shutdown-delay", "5s", "-o", "json"}, p.flags...)...)
	if err := json.Unmarshal([]byte(out), &spec); err != nil {
		t.Fatal(err)
	}
	sidecar(spec)["imagePullPolicy"] = "Never"
	containers, _ := spec["containers"].([]any)
	spec["containers"] = append(containers, parts{
		"name": "engine", "image": "docket.test/engine:dev", "imagePullPolicy": "Never", "args": strings.Fields(p.engine),
		"volumeMounts":    []any{parts{"name": "docket-socket", "mountPath": "/run/docket"}},
		"securityContext": restricted(10001),
	})
	spec["volumes"] = append(spec["volumes"].([]any), p.volumes...)
	if p.change != nil {
		p.change(spec)
	}
	text, err := json.Marshal(parts{"apiVersion": "v1", "kind": "Pod", "metadata": parts{"name": "engine", "labels": parts{"app": "engine"}}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	return configMap(config) + "---\n" + string(text) + "\n"
}

// sidecar is docket's container, a native sidecar or, with --plain, an ordinary one.
func sidecar(spec parts) parts {
	containers, native := spec["initContainers"].([]any)
	if !native {
		containers = spec["containers"].([]any)
	}
	return containers[0].(parts)
}

// queueVolume is the volume of docket's queue.
func queueVolume(spec parts) parts {
	for _, v := range spec["volumes"].([]any) {
		if v := v.(parts); v["name"] == "docket-queue" {
			return v
		}
	}
	return nil
}

// restricted is the security context of a container that the profile "restricted" admits.
func restricted(user int) parts {
	return parts{
		"runAsUser": user, "runAsNonRoot": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
		"capabilities": parts{"drop": []any{"ALL"}}, "seccompProfile": parts{"type": "RuntimeDefault"},
	}
}

func configMap(config string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: docket}\ndata:\n  docket.yaml: |\n    " +
		strings.TrimSpace(strings.ReplaceAll(config, "\n", "\n    ")) + "\n"
}

// scene is a pod that runs, and where its records go.
type scene struct {
	*nodetest.Namespace
	t              *testing.T
	r              *nodetest.Receiver
	engine, docket *nodetest.Log // of the containers' first runs
}

// newScene is a namespace with a receiver, and no pod yet.
func newScene(t *testing.T) *scene {
	t.Helper()
	n := nodetest.Start(t)
	return &scene{Namespace: n.Namespace(t), t: t, r: n.Receiver(t)}
}

// start starts a pod and waits until docket has acknowledged some records.
func (p pod) start(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	if p.claim != "" {
		s.Volume(p.claim)
	}
	s.Apply(p.manifest(t, s.Node, s.r))
	s.run()
	return s
}

// run waits until the pod is Ready and docket has acknowledged some records.
func (s *scene) run() {
	s.t.Helper()
	s.AwaitReady("pod/engine")
	s.engine, s.docket = s.KeepLog("engine", "engine"), s.KeepLog("engine", "docket")
	s.ackedAfter(0)
}

// acked returns the requestUIDs that the engine has an ack for so far.
func (s *scene) acked() []string {
	s.t.Helper()
	return nodetest.Acked(s.text(s.engine))
}

// ackedAfter waits until there are 50 acks more than n.
func (s *scene) ackedAfter(n int) {
	s.t.Helper()
	s.Await("50 acks more", func() error {
		if got := len(s.acked()); got < n+50 {
			return fmt.Errorf("%d so far", got)
		}
		return nil
	})
}

func (s *scene) text(log *nodetest.Log) string {
	s.t.Helper()
	text, err := log.Text()
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// remove deletes the pod in order and waits until it is gone.
func (s *scene) remove() {
	s.t.Helper()
	s.Kubectl("delete", "pod", "engine", "--timeout=10m")
}

// nothingLost ends the pod, and sees that the receiver has every record that was acknowledged.
func (s *scene) nothingLost() {
	s.t.Helper()
	s.remove()
	said := s.text(s.engine)
	if uids := s.acked(); len(s.r.Missing(uids)) > 0 || strings.Contains(said, "not acked") {
		s.t.Errorf("%d of %d acknowledged records are lost; the engine ended with %q", len(s.r.Missing(uids)), len(uids), last(said))
	} else {
		s.t.Logf("%d acknowledged, 0 lost", len(uids))
	}
}

// get returns a field of the pod by its JSONPath.
func (s *scene) get(path string) string {
	s.t.Helper()
	return s.Kubectl("get", "pod", "engine", "-o", "jsonpath="+path)
}

const (
	docketStatus = ".status.initContainerStatuses[0]"
	engineStatus = ".status.containerStatuses[0]"
)

// restarted waits until docket has been started once more, and returns how its first run ended.
func (s *scene) restarted() (exitCode, reason string) {
	s.t.Helper()
	s.Await("a restart of docket", func() error {
		out, err := s.TryKubectl("get", "pod", "engine", "-o",
			"jsonpath={"+docketStatus+".restartCount} {"+docketStatus+".ready} {"+docketStatus+".lastState.terminated.exitCode} {"+docketStatus+".lastState.terminated.reason} {"+engineStatus+".restartCount}")
		if err != nil {
			return err
		}
		got := strings.Fields(out)
		if len(got) != 5 || got[0] == "0" || got[1] != "true" {
			return errors.New(out)
		}
		exitCode, reason = got[2], got[3]
		if got[4] != "0" {
			s.t.Errorf("the engine was started %s times more, want it left alone", got[4])
		}
		return nil
	})
	return exitCode, reason
}

// process is the process id of docket, as the node numbers it.
func (s *scene) process() string {
	s.t.Helper()
	id := strings.TrimPrefix(s.get("{"+docketStatus+".containerID}"), "containerd://")
	out, err := s.Node.Inside("ctr", "-n", "k8s.io", "task", "ls").CombinedOutput()
	if err != nil {
		s.t.Fatalf("ctr task ls: %v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == id {
			return fields[1]
		}
	}
	s.t.Fatalf("there is no process of %s in\n%s", id, out)
	return ""
}

// inside runs a shell with the node's files and processes, and returns what it prints.
func (s *scene) inside(script string, args ...string) string {
	s.t.Helper()
	out, err := s.Node.Inside("bash", append([]string{"-ec", script, "bash"}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

func last(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return lines[len(lines)-1]
}
