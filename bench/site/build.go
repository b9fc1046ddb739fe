package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Root is the directory of the repository that this process runs in.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/docket-export/docket").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: go list -m: %w", err)
	}
	root := strings.TrimSpace(string(out))
	if root == "" {
		return "", errors.New("find the repository: run this inside it")
	}
	return root, nil
}

// Env is the environment of a go command in a tree. A tree that is older than the workspace
// lies below this one and must not take its go.work for its own.
func Env(tree string) []string {
	if _, err := os.Stat(filepath.Join(tree, "go.work")); err != nil {
		return append(os.Environ(), "GOWORK=off")
	}
	return append(os.Environ(), "GOWORK=")
}

// Build makes the binary of docket that users get from a tree: its flags are those of
// "make build", and more. Only -trimpath is missing: it would have every package compiled
// again beside those of the tests.
func Build(ctx context.Context, tree, binary string, more ...string) error {
	args := append([]string{"build", "-buildvcs=false", "-ldflags", "-s -w -X github.com/docket-export/docket/cli/versioncmd.version=bench", "-o", binary}, more...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/docket")...)
	cmd.Dir = tree
	cmd.Env = append(Env(tree), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build docket: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}
