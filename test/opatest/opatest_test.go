package opatest

import (
	"os/exec"
	"testing"
)

// TestPrograms shows that OPA is there and starts; make servers builds it by this test.
func TestPrograms(t *testing.T) {
	if out, err := exec.Command(Program(t), "version").CombinedOutput(); err != nil {
		t.Errorf("opa version: %v\n%s", err, out)
	}
}
