// Package helmtest builds the real Helm for tests: a pinned release, once, into a folder
// of the repository that git ignores.
package helmtest

import (
	_ "embed"
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
	return artifact.GoProgram{
		Name: "helm", Version: version, What: "Helm", Module: module, Package: "helm.sh/helm/v4/cmd/helm", Seconds: 80,
		// Charts may ask Helm for its version.
		LinkerFlags: "-X helm.sh/helm/v4/internal/version.version=v" + version,
	}.Path(t)
}
