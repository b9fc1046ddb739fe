package manifests_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli"
	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/config"
)

// gatekeeperGrace is the grace period that Gatekeeper's chart gives to every pod.
const gatekeeperGrace = 60

type container struct {
	Resources struct{ Limits struct{ Memory string } }
}

type volume struct {
	Name     string
	EmptyDir struct {
		SizeLimit string `yaml:"sizeLimit"`
	} `yaml:"emptyDir"`
}

type pod struct {
	TerminationGracePeriodSeconds int         `yaml:"terminationGracePeriodSeconds"`
	InitContainers                []container `yaml:"initContainers"`
	Containers                    []container
	Volumes                       []volume
}

// queue is the volume docket-queue.
func (p pod) queue() volume {
	return p.Volumes[slices.IndexFunc(p.Volumes, func(v volume) bool { return v.Name == "docket-queue" })]
}

type deployment struct {
	Spec struct{ Template struct{ Spec pod } }
}

// The pods of the manifests have room for the docket.yaml beside them.
func TestSizes(t *testing.T) {
	var audit struct {
		Audit struct {
			ExportVolume  volume    `yaml:"exportVolume"`
			ExportSidecar container `yaml:"exportSidecar"`
		}
	}
	var tap, engine deployment
	read(t, "gatekeeper/audit/values.yaml", &audit)
	read(t, "gatekeeper/tap/deployment.yaml", &tap)
	read(t, "docket-webhook/engine.yaml", &engine)
	pods := map[string]pod{"tap": tap.Spec.Template.Spec, "webhook": engine.Spec.Template.Spec}
	for _, shipped := range []struct {
		dir, path string // of queue.directory
		container container
		volume    volume
		grace     int
		args      []string
	}{
		// The longest of both, as the values of both folders may go together: preStop, and shutdownDelay.
		{"gatekeeper/audit", "/tmp/violations/docket", audit.Audit.ExportSidecar, audit.Audit.ExportVolume, gatekeeperGrace, []string{"--plain", "--shutdown-delay", "25s", "--mount", "tmp-violations=/tmp/violations"}},
		{"gatekeeper/tap", "/var/lib/docket/queue", pods["tap"].InitContainers[0], pods["tap"].queue(), gatekeeperGrace, []string{"--shutdown-delay", "20s"}},
		{"docket-webhook", "/var/lib/docket/queue", pods["webhook"].InitContainers[0], pods["webhook"].queue(), pods["webhook"].TerminationGracePeriodSeconds, nil},
	} {
		text, err := os.ReadFile(filepath.Join(shipped.dir, "docket.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		least := sidecar(t, bytes.ReplaceAll(text, []byte(shipped.path), []byte("/var/lib/docket/queue")), shipped.args...)
		memory := append(least.InitContainers, least.Containers...)[0].Resources.Limits.Memory
		atLeast(t, shipped.dir+": memory limit", shipped.container.Resources.Limits.Memory, memory)
		atLeast(t, shipped.dir+": volume", shipped.volume.EmptyDir.SizeLimit, least.queue().EmptyDir.SizeLimit)
		if want := least.TerminationGracePeriodSeconds; shipped.grace < want {
			t.Errorf("%s takes %d s to stop, and has %d", shipped.dir, want, shipped.grace)
		}
	}
	text, err := os.ReadFile("gatekeeper/tap/tap.yaml")
	if err != nil {
		t.Fatal(err)
	}
	atLeast(t, "memory limit of tap", pods["tap"].Containers[1].Resources.Limits.Memory, tapCeiling(t, text))
}

// The chart's values have room for all kinds of sources that listen, with TLS, and for what
// their comments say.
func TestChartSizes(t *testing.T) {
	var values struct {
		Docket                        container `yaml:",inline"`
		TapContainer                  container `yaml:"tapContainer"`
		Volume                        struct{ Size string }
		TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
	}
	read(t, "../charts/docket/values.yaml", &values)
	const head = `
apiVersion: docket.dev/v1alpha1
kind: Exporter
queue: {directory: /var/lib/docket/queue, maxBytes: 2Gi}
metrics: {address: ":9465"}
shutdown: {drainTimeout: 20s}
sources:
- {name: engine, unix: {path: /run/docket/docket.sock}}
- {name: remote, tcp: {address: ":7443", tls: {certFile: /etc/docket-tls/tls.crt, keyFile: /etc/docket-tls/tls.key}}}
- {name: opa, opa: {address: ":8282", tls: {certFile: /etc/docket-tls/tls.crt, keyFile: /etc/docket-tls/tls.key}}}
- {name: audit, kubernetesAudit: {address: ":8283", tls: {certFile: /etc/docket-tls/tls.crt, keyFile: /etc/docket-tls/tls.key}}}
sinks:
- {name: siem, http: {url: "https://siem.example.com", compression: gzip}}
- {name: bus, kafka: {brokers: ["kafka:9092"], topic: decisions}}
`
	pod := sidecar(t, []byte(head), "--secret", "docket-tls=/etc/docket-tls", "--shutdown-delay", "30s")
	atLeast(t, "volume.size", values.Volume.Size, pod.queue().EmptyDir.SizeLimit)
	if got, want := values.TerminationGracePeriodSeconds, pod.TerminationGracePeriodSeconds; got < want {
		t.Errorf("terminationGracePeriodSeconds: got %d, want %d at least", got, want)
	}
	const export = "- {name: files, file: {directory: /var/lib/docket/export, compress: zstd, retain: {maxTotalBytes: 1Gi}}}\n"
	pod = sidecar(t, []byte(head+export), "--secret", "docket-tls=/etc/docket-tls")
	atLeast(t, "resources.limits.memory", values.Docket.Resources.Limits.Memory, pod.InitContainers[0].Resources.Limits.Memory)
	atLeast(t, "tapContainer.resources.limits.memory", values.TapContainer.Resources.Limits.Memory, tapCeiling(t, []byte(`
apiVersion: docket.dev/v1alpha1
kind: Tap
listen: ":8443"
tlsDir: /etc/docket-tls
upstream: {url: "https://engine.policy.svc"}
docket: {address: "unix:///run/docket/docket.sock", maxBufferedBytes: 16Mi}
`)))
}

func read(t *testing.T, file string, v any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sidecar is the pod that docket kubernetes sidecar writes for a configuration.
func sidecar(t *testing.T, text []byte, args ...string) (p pod) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "docket.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	root := cli.Root(builtin.Kinds())
	root.SetArgs(append([]string{"kubernetes", "sidecar", "-f", file}, args...))
	var out bytes.Buffer
	root.SetOut(&out)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(out.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// tapCeiling is the memory that docket check prints for a configuration of tap.
func tapCeiling(t *testing.T, text []byte) string {
	t.Helper()
	cfg, problems := tapcmd.Load(text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return config.Size(cfg.MemoryCeiling()).String()
}

func atLeast(t *testing.T, what, got, least string) {
	t.Helper()
	var have, want config.Size
	if err := yaml.Unmarshal([]byte(got), &have); err != nil {
		t.Fatalf("%s %q: %v", what, got, err)
	}
	if err := yaml.Unmarshal([]byte(least), &want); err != nil || want == 0 {
		t.Fatalf("%s at least %q: %v", what, least, err)
	}
	if have < want {
		t.Errorf("%s is %s, want %s at least", what, got, least)
	}
}
