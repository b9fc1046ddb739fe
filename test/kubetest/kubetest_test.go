package kubetest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/kubetest"
)

// TestPrograms shows that the programs are there and start; make servers builds them by it.
func TestPrograms(t *testing.T) {
	control, node := kubetest.ControlPlane(t), kubetest.NodePrograms(t)
	for _, program := range []string{
		filepath.Join(control, "etcd"), filepath.Join(control, "kube-apiserver"),
		filepath.Join(node, "kubelet"), filepath.Join(node, "kube-controller-manager"),
		filepath.Join(node, "kube-scheduler"), filepath.Join(node, "kube-proxy"),
		kubetest.GatekeeperProgram(t),
	} {
		if out, err := exec.Command(program, "--help").CombinedOutput(); err != nil {
			t.Errorf("%s --help: %v\n%s", program, err, out)
		}
	}
}

// TestAuditLog shows that the API server takes an audit policy and writes what it
// asks for.
func TestAuditLog(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{AuditPolicy: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"})
	c.Kubectl("create", "namespace", "shop")
	c.APIServer.Stop()
	log, err := os.ReadFile(c.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(log), `"objectRef":{"resource":"namespaces","name":"shop"`); got == 0 {
		t.Errorf("the audit log of %d bytes has nothing of the namespace", len(log))
	}
}

// TestGatekeeper shows that the webhook is asked: Gatekeeper denies what its
// constraint forbids.
func TestGatekeeper(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	c.StartGatekeeper(kubetest.GatekeeperOptions{AuditSeconds: 60, MaxAuditResults: 3})
	c.Apply(kubetest.RequiredLabels)
	c.Apply(`apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sRequiredLabels
metadata: {name: must-have-team}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}]}
  parameters: {labels: [team]}
`)
	c.AwaitDenial("must-have-team", "create", "configmap", "bad", "-n", "default")
	out, err := c.Try("", "create", "configmap", "bad", "-n", "default")
	if err == nil || !strings.Contains(err.Error(), "[must-have-team] you must provide labels") {
		t.Errorf("create an object without a label: got %q, %v; want it denied", out, err)
	}
}
