// Package opatest builds the real Open Policy Agent for tests: a pinned release, once,
// into a folder of the repository that git ignores.
package opatest

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/test/internal/artifact"
)

// version is the release that opa.mod asks for.
const version = "1.22.0"

//go:embed testdata/opa.mod
var module []byte

// Program returns the path of the program. Where it cannot be had the test is skipped,
// or fails when the environment says CI=true.
func Program(t testing.TB) string {
	t.Helper()
	release := artifact.Artifact{
		Name:    "opa-" + version,
		What:    "Open Policy Agent " + version,
		Recipe:  module,
		Seconds: 90,
		Make: func(ctx context.Context, dir string) error {
			if err := os.WriteFile(filepath.Join(dir, "go.mod"), module, 0o644); err != nil {
				return err
			}
			return artifact.Run(ctx, dir, "go", "build", "-mod=mod", "-buildvcs=false", "-trimpath", "-ldflags=-s -w",
				"-o", "opa", "github.com/open-policy-agent/opa")
		},
	}.Dir(t)
	return filepath.Join(release, "opa")
}
