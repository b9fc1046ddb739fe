// Package opatest builds the real Open Policy Agent for tests: a pinned release, once,
// into a folder of the repository that git ignores.
package opatest

import (
	_ "embed"
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
	return artifact.GoProgram{
		Name: "opa", Version: version, What: "Open Policy Agent", Module: module, Package: "github.com/open-policy-agent/opa", Seconds: 90,
	}.Path(t)
}
