package dockettest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/internal/repo"
)

// binaryVariable carries the path of the built binary from Main to the tests of
// the same process.
const binaryVariable = "DOCKET_TEST_BINARY"

// Main builds docket, runs the tests of m with it and returns their exit code.
// A package that uses dockettest calls it from its TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(dockettest.Main(m)) }
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "docket-binary-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	binary := filepath.Join(dir, "docket")
	if err := build(binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv(binaryVariable, binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build writes the docket of this repository, built with the product's own
// go.mod, to path. Under -race it is built with the race detector, too.
func build(path string) error {
	root, err := repo.Root()
	if err != nil {
		return err
	}
	args := []string{"build", "-o", path}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/docket")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build docket: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Program returns the path of the built docket, for the commands that a test runs as
// servers of their own.
func Program(t testing.TB) string {
	t.Helper()
	path := os.Getenv(binaryVariable)
	if path == "" {
		t.Fatal("no docket was built: TestMain of this package must call dockettest.Main")
	}
	return path
}
