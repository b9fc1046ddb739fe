package manifests_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/config"
)

// gatekeeperGrace is the grace period that Gatekeeper's chart gives to every pod.
const gatekeeperGrace = 60

// The pods of Gatekeeper have room for the docket.yaml beside them.
func TestGatekeeper(t *testing.T) {
	type container struct {
		Resources struct{ Limits struct{ Memory string } }
	}
	type volume struct {
		Name     string
		EmptyDir struct {
			SizeLimit string `yaml:"sizeLimit"`
		} `yaml:"emptyDir"`
	}
	var values struct {
		Audit struct {
			ExportVolume  volume    `yaml:"exportVolume"`
			ExportSidecar container `yaml:"exportSidecar"`
		}
	}
	var deployment struct {
		Spec struct {
			Template struct {
				Spec struct {
					InitContainers []container `yaml:"initContainers"`
					Containers     []container
					Volumes        []volume
				}
			}
		}
	}
	for file, v := range map[string]any{"gatekeeper/audit/values.yaml": &values, "gatekeeper/tap/deployment.yaml": &deployment} {
		text, err := os.ReadFile(file)
		if err == nil {
			err = yaml.Unmarshal(text, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	pod := deployment.Spec.Template.Spec
	text, err := os.ReadFile("gatekeeper/tap/tap.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tap, problems := tapcmd.Load(text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if limit := pod.Containers[1].Resources.Limits.Memory; int64(size(t, limit)) < tap.MemoryCeiling() {
		t.Errorf("the memory limit of tap is %s, want %d at least", limit, tap.MemoryCeiling())
	}
	queue := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v volume) bool { return v.Name == "docket-queue" })]
	for _, shipped := range []struct {
		dir, path string // of queue.directory
		container container
		volume    volume
		args      []string
	}{
		// The longest of both, as the values of both folders may go together: preStop, and shutdownDelay.
		{"gatekeeper/audit", "/tmp/violations/docket", values.Audit.ExportSidecar, values.Audit.ExportVolume, []string{"--plain", "--shutdown-delay", "25s", "--mount", "tmp-violations=/tmp/violations"}},
		{"gatekeeper/tap", "/var/lib/docket/queue", pod.InitContainers[0], queue, []string{"--shutdown-delay", "20s"}},
	} {
		text, err := os.ReadFile(filepath.Join(shipped.dir, "docket.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		text = bytes.ReplaceAll(text, []byte(shipped.path), []byte("/var/lib/docket/queue"))
		if err := os.WriteFile(filepath.Join(dir, "docket.yaml"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		var least struct {
			TerminationGracePeriodSeconds int         `yaml:"terminationGracePeriodSeconds"`
			InitContainers                []container `yaml:"initContainers"`
			Containers                    []container
			Volumes                       []volume
		}
		if err := yaml.Unmarshal([]byte(sidecar(t, dir, shipped.args...)), &least); err != nil {
			t.Fatal(err)
		}
		if grace := least.TerminationGracePeriodSeconds; grace > gatekeeperGrace {
			t.Errorf("%s takes %d s to stop, more than the chart gives", shipped.dir, grace)
		}
		memory := append(least.InitContainers, least.Containers...)[0].Resources.Limits.Memory
		if got := shipped.container.Resources.Limits.Memory; size(t, got) < size(t, memory) {
			t.Errorf("%s: the memory limit is %s, want %s at least", shipped.dir, got, memory)
		}
		for _, v := range least.Volumes {
			if v.Name == "docket-queue" && size(t, shipped.volume.EmptyDir.SizeLimit) < size(t, v.EmptyDir.SizeLimit) {
				t.Errorf("%s: the volume has %s, want %s at least", shipped.dir, shipped.volume.EmptyDir.SizeLimit, v.EmptyDir.SizeLimit)
			}
		}
	}
}

func size(t *testing.T, text string) (n config.Size) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &n); err != nil || n == 0 {
		t.Fatalf("size %q: %v", text, err)
	}
	return n
}
