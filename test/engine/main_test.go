// Package engine tests docket-webhook beside the real Gatekeeper, on the same templates,
// constraints and requests.
//
//	request_test.go      requests of testdata, and the answers of a webhook
//	gatekeeper_test.go   a cluster with Gatekeeper and the policies of testdata
//	webhook_test.go      docket-webhook as a process, with its docket
//	verdict_test.go      what both say about each request, and what is in the export
package engine

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/dockettest"
)

// program is the path of docket-webhook, which TestMain builds.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "docket-webhook-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	program = filepath.Join(dir, "docket-webhook")
	if err := build(program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return dockettest.Main(m)
}

// build writes the docket-webhook of this repository to path.
func build(path string) error {
	root, err := repo.Root()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/docket-webhook")
	cmd.Dir = filepath.Join(root, "webhook", "engine")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build docket-webhook: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}
