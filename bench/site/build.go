package site

import (
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
)

// Root is the directory of the repository that this process runs in.
func Root(t *trial.T) string {
	return process.Output(t, "", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/docket-export/docket")
}

// Build makes the binary of docket that users get from a tree: its flags are those of
// "make build", and more. Only -trimpath is missing: it would have every package compiled
// again beside those of the tests.
func Build(t *trial.T, tree, binary string, more ...string) {
	args := append([]string{
		"CGO_ENABLED=0", "go", "build", "-buildvcs=false", "-ldflags", "-s -w -X github.com/docket-export/docket/cli/versioncmd.version=bench", "-o", binary,
	}, more...)
	process.Output(t, tree, "env", append(args, "./cmd/docket")...)
}
