package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/nodetest"
)

// pod is a pod named engine with docket as its native sidecar, whose sink is a receiver.
type pod struct {
	engine  string // arguments of the program engine, separated by blanks
	config  string // keys of docket.yaml beside those of every pod
	queue   string // the volume, as YAML; an emptyDir by default
	memory  string // limit of the sidecar
	grace   int    // terminationGracePeriodSeconds
	sidecar string // more keys of the sidecar's container, as YAML of one line
	volumes string // more volumes, as YAML of one line each
	mounts  string // and where the sidecar has them
}

// configFile is docket.yaml of a pod.
func (p pod) configFile(r *nodetest.Receiver) string {
	return `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: engine
  unix: {path: /run/docket/docket.sock, mode: "0660"}
queue: {directory: /var/lib/docket/queue, maxBytes: 64Mi}
sinks:
- name: siem
  batch: {maxWait: 100ms}
  retry: {initialBackoff: 100ms, maxBackoff: 1s}
  http: {url: "` + r.URL + `/ingest"}
metrics: {address: ":9465"}
` + p.config
}

// manifest is the pod with its ConfigMap, as docs/operating.md has it, with other timings where a
// test would wait.
func (p pod) manifest(r *nodetest.Receiver) string {
	if p.queue == "" {
		p.queue = "emptyDir: {sizeLimit: 512Mi}"
	}
	if p.memory == "" {
		p.memory = "128Mi"
	}
	if p.grace == 0 {
		p.grace = 30
	}
	args := strings.Join(strings.Fields(p.engine), ", ")
	return configMap(p.configFile(r)) + fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: engine, labels: {app: engine}}
spec:
  terminationGracePeriodSeconds: %d
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  initContainers:
  - name: docket
    image: docket.test/docket:dev
    imagePullPolicy: Never
    restartPolicy: Always
    args: [run, -f, /etc/docket/docket.yaml, --queue, /var/lib/docket/queue]
    ports: [{name: docket-metrics, containerPort: 9465}]
    startupProbe:
      exec: {command: [docket, probe, startup, -f, /etc/docket/docket.yaml, --queue, /var/lib/docket/queue]}
      periodSeconds: 1
      timeoutSeconds: 5
      failureThreshold: 60
    livenessProbe:
      exec: {command: [docket, probe, live, -f, /etc/docket/docket.yaml, --queue, /var/lib/docket/queue]}
      periodSeconds: 10
      timeoutSeconds: 5
    securityContext: {runAsUser: 65532, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: %s}}
    volumeMounts:
    - {name: docket-config, mountPath: /etc/docket, readOnly: true}
    - {name: docket-socket, mountPath: /run/docket}
    - {name: docket-queue, mountPath: /var/lib/docket}
    %s
    %s
  containers:
  - name: engine
    image: docket.test/engine:dev
    imagePullPolicy: Never
    args: [%s]
    securityContext: {runAsUser: 10001, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts:
    - {name: docket-socket, mountPath: /run/docket}
  volumes:
  - {name: docket-config, configMap: {name: docket}}
  - {name: docket-socket, emptyDir: {}}
  - {name: docket-queue, %s}
  %s
`, p.grace, p.memory, p.mounts, p.sidecar, args, p.queue, p.volumes)
}

func configMap(config string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: docket}\ndata:\n  docket.yaml: |\n    " +
		strings.TrimSpace(strings.ReplaceAll(config, "\n", "\n    ")) + "\n"
}

// acked waits until docket has acknowledged n records of the engine's log or more, and
// returns their requestUIDs.
func acked(ns *nodetest.Namespace, log *nodetest.Log, n int) (uids []string) {
	ns.Await(fmt.Sprintf("%d acks", n), func() error {
		text, err := log.Text()
		if err != nil {
			return err
		}
		if uids = nodetest.Acked(text); len(uids) < n {
			return fmt.Errorf("%d so far", len(uids))
		}
		return nil
	})
	return uids
}

// text returns the log so far.
func text(t *testing.T, log *nodetest.Log) string {
	t.Helper()
	s, err := log.Text()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// deleted deletes a pod in order and waits until it is gone.
func deleted(ns *nodetest.Namespace, pod string) {
	ns.Kubectl("delete", "pod", pod, "--wait=true", "--timeout=90s")
}
