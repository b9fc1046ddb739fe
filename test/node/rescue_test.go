package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/kafkatest"
	"github.com/docket-export/docket/test/nodetest"
)

// A pod with a claim is deleted by force in an outage of Kafka. The Job delivers what its
// docket has acknowledged, once Kafka is back, and leaves the queue alone while the pod has it.
func TestRescue(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	s := &scene{Namespace: n.Namespace(t), t: t}
	kafka := kafkatest.StartIn(t, n, n.Address)
	kafka.CreateTopic("decisions", 1, 1)
	s.Volume("docket")
	s.Apply(claim)
	s.Apply(pod{engine: "-every=2ms", flags: []string{"--volume", "claim=docket"}, sinks: `- name: bus
  retry: {initialBackoff: 100ms, maxBackoff: 1s}
  deadLetters: {maxBytes: 32Mi}
  kafka: {brokers: ["` + kafka.Brokers()[0] + `"], topic: decisions, timeout: 3s}
`}.manifest(t, n, nil))
	s.run()
	kafka.Kill(1)
	before := len(s.acked())
	s.ackedAfter(before + 500)

	job := rescueJob(s)
	s.Apply(job)
	s.jobSays("is in use by process 1 on host engine")
	s.Kubectl("delete", "job", "docket-rescue")
	s.Kubectl("delete", "pod", "engine", "--grace-period=0", "--force")
	uids := s.acked()

	s.Apply(job)
	s.jobSays(`"msg":"delivering the records in the queue, receiving nothing","left":{"bus":`)
	kafka.Restart(1)
	s.Kubectl("wait", "--for=condition=complete", "--timeout=10m", "job/docket-rescue")
	s.jobSays(`"msg":"stopped","sink":"bus","delivered":`)
	arrived := map[string]bool{}
	for _, r := range kafka.ReadAll("decisions") {
		var record decision.Record
		if err := json.Unmarshal(r.Value, &record); err != nil {
			t.Fatal(err)
		}
		arrived[record.RequestUID] = true
	}
	lost := 0
	for _, uid := range uids {
		if !arrived[uid] {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged records are lost", lost, len(uids))
	}
	t.Logf("%d acknowledged, %d of them in the outage, %d lost", len(uids), len(uids)-before, lost)
}

// TestRescuePage follows docs/rescue.md: the pod is gone with its sink down.
func TestRescuePage(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	s := &scene{Namespace: n.Namespace(t), t: t, r: n.Receiver(t)}
	s.Volume("docket")
	s.Apply(claim)
	s.Apply(deployment(t, pod{engine: "-every=5ms", flags: []string{"--volume", "claim=docket"}}.manifest(t, n, s.r)))
	r := &reader{node: n, dir: t.TempDir(), env: append(n.Command("true").Env, "KUBECACHEDIR="+t.TempDir())}
	root, err := repo.Root()
	must(t, err)
	must(t, os.Symlink(root, filepath.Join(r.dir, "docket")))
	page := document.Read(t, "rescue.md")
	page.Text = strings.NewReplacer("policy", s.Name, "registry.example.com/docket:1.0.0", "docket.test/docket:dev",
		"newName: registry.example.com/docket, newTag: 1.0.0", "newName: docket.test/docket, newTag: dev").Replace(page.Text)

	s.leavesBehind()
	s.Kubectl("scale", "deployment", "engine", "--replicas=0")
	s.Await("docket's last line", func() error {
		if said := s.text(s.docket); !strings.Contains(said, `"msg":"stopped"`) {
			return errors.New(last(said))
		}
		return nil
	})
	before := s.acked()
	missing := len(s.r.Missing(before))
	s.r.Answer(0)
	r.follow(t, page.Section(t, "The pod is gone"))
	if lost := s.r.Missing(before); len(lost) > 0 || missing == 0 {
		t.Errorf("%d of %d acknowledged records are lost; %d were pending", len(lost), len(before), missing)
	}

	t.Logf("%d acknowledged before the Job, %d of them pending, 0 lost", len(before), missing)
}

// leavesBehind waits for the pod of the Deployment, and until docket has acknowledged records
// that the receiver, which is down from now on, does not have.
func (s *scene) leavesBehind() {
	s.t.Helper()
	s.Kubectl("rollout", "status", "deployment", "engine", "--timeout=2m")
	name := s.Kubectl("get", "pods", "-l=app=engine", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[0].metadata.name}")
	s.engine, s.docket = s.KeepLog(name, "engine"), s.KeepLog(name, "docket")
	s.r.Answer(http.StatusServiceUnavailable)
	s.ackedAfter(len(s.acked()))
}

// deployment is a manifest of a pod as a Deployment of one.
func deployment(t *testing.T, manifest string) string {
	t.Helper()
	config, text, _ := strings.Cut(manifest, "---\n")
	template := parts{}
	must(t, json.Unmarshal([]byte(text), &template))
	delete(template, "apiVersion")
	delete(template, "kind")
	template["metadata"] = parts{"labels": parts{"app": "engine"}}
	out, err := json.Marshal(parts{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": parts{"name": "engine"}, "spec": parts{
		"replicas": 1, "strategy": parts{"type": "Recreate"}, "selector": parts{"matchLabels": parts{"app": "engine"}}, "template": template,
	}})
	must(t, err)
	return config + "---\n" + string(out) + "\n"
}

// jobSays waits until a pod of the Job has said want: a try may fail while the kubelet stops
// what was deleted.
func (s *scene) jobSays(want string) {
	s.t.Helper()
	s.Await("a Job that says "+want, func() error {
		said, err := s.TryKubectl("logs", "-l=batch.kubernetes.io/job-name=docket-rescue", "--tail=-1")
		if err == nil && !strings.Contains(said, want) {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
}

// rescueJob is manifests/rescue for the claim docket, with an image that the node has.
func rescueJob(s *scene) string {
	s.t.Helper()
	root, err := repo.Root()
	if err != nil {
		s.t.Fatal(err)
	}
	overlay := s.t.TempDir()
	base, err := filepath.Rel(overlay, filepath.Join(root, "manifests", "rescue"))
	if err == nil {
		err = os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [`+base+`]
images: [{name: docket, newName: docket.test/docket, newTag: dev}]
patches:
- target: {kind: Job, name: docket-rescue}
  patch: '[{"op": "replace", "path": "/spec/template/spec/volumes/1/persistentVolumeClaim/claimName", "value": "docket"}]'
`), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return s.Kubectl("kustomize", overlay)
}
