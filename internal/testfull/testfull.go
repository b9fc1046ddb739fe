// Package testfull lets tests meet a full disk.
package testfull

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

// child holds the name of the test that a process was started for.
const child = "DOCKET_TEST_FULL_DISK"

// Alone runs t, a test that is part of no other, in a process of its own, and reports
// whether this is that process. Elsewhere the test must return: a limit holds for all of a
// process, and other tests, and go test itself, have files to write.
func Alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(child) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), child+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("in a process of its own: %v\n%s", err, out)
	}
	return false
}

// Limit makes writes of this process fail where a file has so many bytes, as on a full disk,
// until stop is called. Use it only in processes of Alone.
func Limit(t *testing.T, bytes int64) (stop func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ) // then such a write is an error, and not the end
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(bytes), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}
}
