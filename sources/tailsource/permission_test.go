package tailsource

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/sources/tailsource/formats"
)

// TestPermissionDenied: a file that may not be read is read once it may be. For root
// everything may be read: then the test runs in a child without that privilege.
func TestPermissionDenied(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 && os.Getenv("DOCKET_TAIL_CHILD") == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestPermissionDenied$", "-test.v")
		child.Env = append(os.Environ(), "DOCKET_TAIL_CHILD=1")
		if out, err := runWithoutOverride(child); err != nil {
			t.Fatalf("got %v from the test as a user without privileges, want none:\n%s", err, out)
		}
		return
	}
	b := newBench(t, formats.JSON)
	b.write("{}\n")
	if err := os.Chmod(b.path, 0); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.awaitTrouble("let docket's user read the file")
	if err := os.Chmod(b.path, 0o400); err != nil {
		t.Fatal(err)
	}
	b.wantStored([]string{"{}"})
	b.awaitTrouble("")
	if err := os.Chmod(b.path, 0o600); err != nil {
		t.Fatal(err)
	}
	b.stop()
	if err := os.Chmod(b.dir, 0); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.awaitTrouble("let docket's user read the file")
	if err := os.Chmod(b.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b.write("{\"n\":2}\n")
	b.wantStored([]string{"{}", `{"n":2}`})
}

// runWithoutOverride runs a command that must obey the permissions of files although it
// runs as root. The thread that it is started from is not used again.
func runWithoutOverride(cmd *exec.Cmd) (out []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		for _, c := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH} {
			if err = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				return
			}
		}
		out, err = cmd.CombinedOutput()
	}()
	<-done
	return out, err
}
