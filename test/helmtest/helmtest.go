// Package helmtest builds the real Helm for tests: a pinned release, once, into a folder
// of the repository that git ignores.
package helmtest

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/test/internal/artifact"
)

// version is the release that helm.mod asks for.
const version = "4.3.1"

//go:embed testdata/helm.mod
var module []byte

// Program returns the path of the program. Where it cannot be had the test is skipped,
// or fails when the environment says CI=true.
func Program(t testing.TB) string {
	t.Helper()
	release := artifact.Artifact{
		Name:    "helm-" + version,
		What:    "Helm " + version,
		Recipe:  module,
		Seconds: 80,
		Make: func(ctx context.Context, dir string) error {
			if err := os.WriteFile(filepath.Join(dir, "go.mod"), module, 0o644); err != nil {
				return err
			}
			// Charts may ask Helm for its version.
			return artifact.Run(ctx, dir, "go", "build", "-mod=mod", "-buildvcs=false", "-trimpath",
				"-ldflags=-s -w -X helm.sh/helm/v4/internal/version.version=v"+version, "-o", "helm", "helm.sh/helm/v4/cmd/helm")
		},
	}.Dir(t)
	return filepath.Join(release, "helm")
}
