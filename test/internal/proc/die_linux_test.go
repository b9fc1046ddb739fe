package proc_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/docket-export/docket/test/internal/proc"
)

// parentVariable makes this test program the parent of TestChildDiesWithParent.
const parentVariable = "DOCKET_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		beParent()
	}
	os.Exit(m.Run())
}

// beParent starts a child that holds file 3, and waits to be killed.
func beParent() {
	cmd := exec.Command("sleep", "600")
	cmd.ExtraFiles = []*os.File{os.NewFile(3, "pipe")}
	p, err := proc.Start(cmd)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	cmd.ExtraFiles[0].Close()
	fmt.Println("started")
	_ = p.Wait()
	os.Exit(1)
}

// TestChildDiesWithParent kills a parent with SIGKILL, which runs no cleanup, and
// sees its child end: the pipe they share is at its end once both are gone.
func TestChildDiesWithParent(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), parentVariable+"=1")
	cmd.ExtraFiles = []*os.File{w}
	parent, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	awaitLine(t, parent, "started")

	parent.Kill()
	awaitEOF(t, r)
}
