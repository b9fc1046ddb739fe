package kubernetes

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/test/kubetest"
)

// An API server takes the manifests of docs/operating.md as they are, every key of them. What
// docket makes of them is tested in cli.
func TestOperatingManifests(t *testing.T) {
	blocks := document.Read(t, "operating.md").Blocks(t, "yaml")
	if len(blocks) < 2 {
		t.Fatalf("got %d blocks, want the manifests and the readiness probe", len(blocks))
	}
	c := kubetest.Start(t, kubetest.Options{})
	ready := "        " + strings.ReplaceAll(strings.TrimSpace(blocks[1]), "\n", "\n        ") + "\n        livenessProbe:"
	for name, manifests := range map[string]string{
		"as they are":            blocks[0],
		"with a readiness probe": strings.Replace(blocks[0], "        livenessProbe:", ready, 1),
	} {
		if _, err := c.Try(manifests, "create", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
