package kubetest

import (
	"context"
	_ "embed"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/internal/artifact"
)

//go:embed testdata/crds.mod
var crdsModule []byte

// definitions are the files of the modules that define what our manifests use.
var definitions = map[string][]string{
	"github.com/prometheus-operator/prometheus-operator": {
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
	},
	"github.com/cert-manager/cert-manager": {
		"deploy/crds/cert-manager.io_certificates.yaml",
		"deploy/crds/cert-manager.io_issuers.yaml",
	},
}

// CRDs returns the manifests that define PodMonitor, ServiceMonitor and PrometheusRule of the
// Prometheus operator, and Certificate and Issuer of cert-manager.
func CRDs(t testing.TB) string {
	t.Helper()
	dir := artifact.Artifact{
		Name:    "crds",
		What:    "the kinds of the Prometheus operator and of cert-manager",
		Recipe:  crdsModule,
		Seconds: 20,
		Make: func(ctx context.Context, dir string) error {
			if err := os.WriteFile(filepath.Join(dir, "go.mod"), crdsModule, 0o644); err != nil {
				return err
			}
			var all strings.Builder
			for module, files := range definitions {
				source, err := moduleSource(ctx, dir, module)
				if err != nil {
					return err
				}
				for _, file := range files {
					text, err := os.ReadFile(filepath.Join(source, filepath.FromSlash(file)))
					if err != nil {
						return err
					}
					all.WriteString("---\n" + string(text) + "\n")
				}
			}
			return os.WriteFile(filepath.Join(dir, "crds.yaml"), []byte(all.String()), 0o644)
		},
	}.Dir(t)
	text, err := os.ReadFile(filepath.Join(dir, "crds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// moduleSource returns the folder with the source of a module that the go.mod in dir
// requires. It must stay as it is.
func moduleSource(ctx context.Context, dir, module string) (string, error) {
	// The sums go nowhere: the go command checks them against the checksum database.
	text, err := artifact.Output(ctx, dir, "go", "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var got struct{ Dir string }
	err = json.Unmarshal([]byte(text), &got)
	return got.Dir, err
}

// ApplyCRDs has the cluster know the kinds of CRDs.
func (c *Cluster) ApplyCRDs() {
	c.t.Helper()
	c.Apply(CRDs(c.t))
	c.Kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
}

// RestrictedNamespace makes a namespace that takes only pods of the Pod Security profile
// restricted, and warns of workloads whose pods would be others.
func (c *Cluster) RestrictedNamespace(name string) {
	c.t.Helper()
	c.Kubectl("create", "namespace", name)
	c.Kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted")
}

// Accepts returns nil if the API server would make all of manifests in namespace, knows
// every key of them, and warns of nothing.
func (c *Cluster) Accepts(namespace, manifests string) error {
	_, err := c.Try(manifests, "create", "-n", namespace, "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f", "-")
	return err
}
