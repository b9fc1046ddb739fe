// Package compile builds docket as it is released.
package compile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Docket is one build.
type Docket struct {
	Platform string // "linux/amd64"
	Version  string
	Out      string // file to write
}

// Build compiles with the flags of make build, so that both give the same bytes.
func (d Docket) Build(ctx context.Context) error {
	goos, goarch, ok := strings.Cut(d.Platform, "/")
	if !ok {
		return fmt.Errorf("platform %q: want a system and an architecture, such as linux/amd64", d.Platform)
	}
	root, err := Root()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -X github.com/docket-export/docket/cli/versioncmd.version="+d.Version,
		"-o", d.Out, "./cmd/docket")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=", "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// Version is what the Makefile calls this tree: the last release and what came after it.
func Version(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "git", "describe", "--tags", "--match", "v*", "--dirty")
	cmd.Dir = root
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "devel", nil
	}
	return strings.TrimSpace(string(out)), err
}

// Root is the directory of the repository that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "docket")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the working directory is not in the repository of docket")
}
