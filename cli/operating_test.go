package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

// sidecar is what a manifest says of docket, as far as this test needs it; an API server
// judges the rest, in test/kubernetes.
type sidecar struct {
	Spec struct {
		Template struct {
			Spec struct {
				Grace          int `yaml:"terminationGracePeriodSeconds"`
				InitContainers []struct {
					RestartPolicy  string         `yaml:"restartPolicy"`
					Args           []string       `yaml:"args"`
					ReadinessProbe map[string]any `yaml:"readinessProbe"`
				} `yaml:"initContainers"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

// The sidecar of docs/operating.md runs, its probes succeed, and go on to when the
// configuration is broken. It has no readiness probe: that would count for the whole pod.
func TestOperatingPage(t *testing.T) {
	page := readFile(t, "../docs/operating.md")
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) != 3 {
		t.Fatalf("got %d blocks of YAML, want the manifests, the readiness probe and the TLS of metrics", len(blocks))
	}
	var configMap struct{ Data map[string]string }
	var deployment sidecar
	manifests := yaml.NewDecoder(strings.NewReader(blocks[0][1]))
	if err := errors.Join(manifests.Decode(&configMap), manifests.Decode(&deployment)); err != nil {
		t.Fatal(err)
	}
	config := configMap.Data["docket.yaml"]
	cfg, problems := exporter.Load([]byte(config), builtin.Kinds())
	if len(problems) > 0 {
		t.Fatalf("the configuration: got %v", problems)
	}
	withTLS := regexp.MustCompile(`(?m)^metrics: .*\n`).ReplaceAllLiteralString(config, blocks[2][1])
	if _, problems := exporter.Load([]byte(withTLS), builtin.Kinds()); len(problems) > 0 {
		t.Errorf("metrics with TLS: got %v", problems)
	}
	pod := deployment.Spec.Template.Spec
	docket := pod.InitContainers[0]
	if docket.RestartPolicy != "Always" || docket.ReadinessProbe != nil {
		t.Errorf("got %+v, want a native sidecar without a readiness probe", docket)
	}
	if least := time.Duration(cfg.Shutdown.DrainTimeout) + 10*time.Second; time.Duration(pod.Grace)*time.Second <= least {
		t.Errorf("got a grace period of %d s, want more than the %s that docket may need", pod.Grace, least)
	}

	compareWithCommand(t, config, blocks[0][1])

	t.Chdir(t.TempDir())
	addresses := make([]string, 3)
	for i := range addresses {
		var err error
		if addresses[i], err = testcli.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	here := strings.NewReplacer("/etc/docket/", "", "/var/lib/docket", "queue", "/run/docket/", "", ":9465", addresses[0], "drainTimeout: 20s", "drainTimeout: 1s").Replace
	writeFile(t, "docket.yaml", here(config)+fmt.Sprintf("admin: {address: %q}\n", addresses[1]))
	args := strings.Fields(here(strings.Join(docket.Args, " ")))
	running := startProcess(t, args...)
	if err := waitReady(t, addresses[1]); err != nil {
		t.Fatalf("%v\n%s", err, running.stderr())
	}
	commands := regexp.MustCompile(`exec: \{command: \[(.*)\]\}`).FindAllStringSubmatch(page, -1)
	if len(commands) != 3 {
		t.Fatalf("got %d probes, want startup, live and ready", len(commands))
	}
	probe := func() {
		t.Helper()
		for _, c := range commands {
			command := strings.Split(here(c[1]), ", ")
			if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
				t.Errorf("%s: got %v: %s", command, err, out)
			}
		}
	}
	probe()
	for _, path := range regexp.MustCompile("\\| `docket probe [a-z]+` \\| `([^`]+)` \\|").FindAllStringSubmatch(page, -1) {
		for _, address := range addresses[:2] {
			res, err := http.Get("http://" + address + path[1])
			if err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("%s at %s: got %v, %v, want 200", path[1], address, res, err)
			}
			if err == nil {
				res.Body.Close()
			}
		}
	}
	moved := strings.Replace(readFile(t, "docket.yaml"), addresses[0], addresses[2], 1)
	writeFile(t, "docket.yaml", moved)
	eventually(t, "the listener for metrics at another address", func() bool {
		res, err := http.Get("http://" + addresses[2] + "/readyz")
		if err == nil {
			res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	})
	writeFile(t, "docket.yaml", "sources: [\nqueue:\n\tdirectory")
	eventually(t, "the broken configuration", func() bool { return statusOf(t, addresses[1]).Config.State == exporter.Error })
	probe()

	// The container is started again with the broken file.
	running.interrupt()
	running.wait()
	running = startProcess(t, args...)
	if err := waitReady(t, addresses[1]); err != nil {
		t.Fatalf("%v\n%s", err, running.stderr())
	}
	probe()
	if !slices.Contains(args, "--queue") || filepath.IsAbs(args[len(args)-1]) {
		t.Errorf("got the arguments %q, want --queue and the directory at their end", args)
	}
}

// compareWithCommand wants the pod of manifests to be docket's part, as docket kubernetes
// sidecar writes it, the engine's image, and nothing else.
func compareWithCommand(t *testing.T, config, manifests string) {
	t.Helper()
	_, deployment, _ := strings.Cut(manifests, "\n---\n")
	var want, got struct {
		Spec struct{ Template struct{ Spec map[string]any } }
	}
	if err := yaml.Unmarshal([]byte(deployment), &want); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "docket.yaml")
	writeFile(t, file, config)
	out, said, code := docket(t, "kubernetes", "sidecar", "-f", file, "--image", "registry.example.com/docket:1.0.0", "--engine", "engine", "-o", "patch")
	if code != 0 {
		t.Fatalf("docket kubernetes sidecar ended with %d: %s", code, said)
	}
	if err := yaml.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	pod := got.Spec.Template.Spec
	pod["containers"].([]any)[0].(map[string]any)["image"] = "registry.example.com/engine:1.0.0"
	if !reflect.DeepEqual(want.Spec.Template.Spec, pod) {
		t.Errorf("the pod of the page is\n%v\nand the command writes\n%v", want.Spec.Template.Spec, pod)
	}
}
