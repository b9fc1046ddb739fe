package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
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
