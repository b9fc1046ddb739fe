package kubetest_test

import (
	"os/exec"
	"path/filepath"
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
