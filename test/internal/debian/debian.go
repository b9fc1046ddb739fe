// Package debian has programs of Debian's packages for tests.
package debian

import (
	"context"
	_ "embed"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/test/internal/artifact"
)

// fetch downloads Debian's package of Prometheus and unpacks it: nothing is installed.
//
//go:embed fetch.sh
var fetch string

// Program returns the path of prometheus or promtool. Where they cannot be had the test is
// skipped, or fails when the environment says CI=true.
func Program(t testing.TB, name string) string {
	t.Helper()
	dir := artifact.Artifact{
		Name:    "prometheus-debian",
		What:    "Debian's package of Prometheus",
		Tools:   []string{"apt-get apt", "dpkg dpkg"},
		Recipe:  []byte(fetch),
		Seconds: 5,
		Make: func(ctx context.Context, dir string) error {
			return artifact.Run(ctx, dir, "sh", "-c", fetch)
		},
	}.Dir(t)
	return filepath.Join(dir, "usr", "bin", name)
}
