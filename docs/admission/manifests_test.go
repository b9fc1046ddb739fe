//go:build unix

package admission

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/exporter"
)

// The parts of Kubernetes that the page uses. A key that is not here is a mistake.
type (
	podSpec struct {
		Grace          int         `yaml:"terminationGracePeriodSeconds"`
		InitContainers []container `yaml:"initContainers"`
		Containers     []container `yaml:"containers"`
		Volumes        []volume    `yaml:"volumes"`
	}
	container struct {
		Name          string   `yaml:"name"`
		Image         string   `yaml:"image"`
		RestartPolicy string   `yaml:"restartPolicy"`
		Args          []string `yaml:"args"`
		Ports         []struct {
			Name          string `yaml:"name"`
			ContainerPort int    `yaml:"containerPort"`
		} `yaml:"ports"`
		Lifecycle      lifecycle `yaml:"lifecycle"`
		ReadinessProbe probe     `yaml:"readinessProbe"`
		LivenessProbe  probe     `yaml:"livenessProbe"`
		StartupProbe   probe     `yaml:"startupProbe"`
		Security       struct {
			RunAsUser                int                 `yaml:"runAsUser"`
			RunAsNonRoot             bool                `yaml:"runAsNonRoot"`
			ReadOnlyRootFilesystem   bool                `yaml:"readOnlyRootFilesystem"`
			AllowPrivilegeEscalation *bool               `yaml:"allowPrivilegeEscalation"`
			Capabilities             map[string][]string `yaml:"capabilities"`
			SeccompProfile           map[string]string   `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		Resources struct {
			Requests, Limits map[string]string
		} `yaml:"resources"`
		VolumeMounts []mount `yaml:"volumeMounts"`
	}
	mount struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	}
	lifecycle struct {
		PreStop struct {
			Sleep struct {
				Seconds int `yaml:"seconds"`
			} `yaml:"sleep"`
		} `yaml:"preStop"`
	}
	probe struct {
		HTTPGet struct {
			Path string `yaml:"path"`
			Port string `yaml:"port"`
		} `yaml:"httpGet"`
		Exec struct {
			Command []string `yaml:"command"`
		} `yaml:"exec"`
		PeriodSeconds    int `yaml:"periodSeconds"`
		TimeoutSeconds   int `yaml:"timeoutSeconds"`
		FailureThreshold int `yaml:"failureThreshold"`
	}
	secret struct {
		Name     string              `yaml:"name"`
		Items    []map[string]string `yaml:"items"`
		Optional bool                `yaml:"optional"`
	}
	volume struct {
		Name      string            `yaml:"name"`
		ConfigMap map[string]string `yaml:"configMap"`
		EmptyDir  *struct{}         `yaml:"emptyDir"`
		Projected struct {
			Sources []struct {
				Secret secret `yaml:"secret"`
			} `yaml:"sources"`
		} `yaml:"projected"`
	}
	configMap struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   map[string]string `yaml:"metadata"`
		Data       map[string]string `yaml:"data"`
	}
)

func decode(t *testing.T, text string, to any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(to); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v behind the first document, want its end:\n%s", err, text)
	}
}

// pods are those of the page, with what the chart of each engine has of its own.
func pods(t *testing.T) map[string]podSpec {
	t.Helper()
	var patch struct {
		Spec struct {
			Template struct {
				Spec podSpec `yaml:"spec"`
			} `yaml:"template"`
		} `yaml:"spec"`
	}
	decode(t, blocks(t, "Gatekeeper", "yaml", 1)[0], &patch)
	gatekeeper := patch.Spec.Template.Spec
	gatekeeper.Volumes = append(gatekeeper.Volumes, volume{Name: "cert"})

	var values struct {
		AdmissionController struct {
			Container struct {
				Lifecycle lifecycle `yaml:"lifecycle"`
			} `yaml:"container"`
			ExtraInitContainers []container `yaml:"extraInitContainers"`
			ExtraContainers     []container `yaml:"extraContainers"`
			ExtraVolumes        []volume    `yaml:"extraVolumes"`
		} `yaml:"admissionController"`
	}
	decode(t, blocks(t, "Kyverno", "yaml", 1)[0], &values)
	a := values.AdmissionController
	return map[string]podSpec{
		"Gatekeeper": gatekeeper,
		"Kyverno": {
			InitContainers: a.ExtraInitContainers,
			Containers:     append(a.ExtraContainers, container{Name: "kyverno", Lifecycle: a.Container.Lifecycle}),
			Volumes:        a.ExtraVolumes,
		},
	}
}

func find[T any](t *testing.T, list []T, what string, is func(T) bool) T {
	t.Helper()
	i := slices.IndexFunc(list, is)
	if i < 0 {
		t.Fatalf("there is no %s", what)
	}
	return list[i]
}

// flag is the value of a flag of a container.
func (c *container) flag(name string) string {
	for _, arg := range c.Args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

// The parts of a manifest agree: volumes, ports, probes, sockets, times and memory.
func TestManifestsAgree(t *testing.T) {
	var config configMap
	decode(t, blocks(t, "docket's own configuration", "yaml", 1)[0], &config)
	cfg, problems := exporter.Load([]byte(config.Data["docket.yaml"]), builtin.Kinds())
	if len(problems) > 0 {
		t.Fatalf("docket.yaml: %v", problems)
	}
	const directory = "/run/docket"
	if !strings.Contains(config.Data["docket.yaml"], "unix: {path: "+directory+"/docket.sock}") {
		t.Errorf("docket does not listen below %s:\n%s", directory, config.Data["docket.yaml"])
	}
	for engine, pod := range pods(t) {
		t.Run(engine, func(t *testing.T) {
			tap := find(t, pod.Containers, "container tap", func(c container) bool { return c.Name == "tap" })
			docket := find(t, pod.InitContainers, "container docket", func(c container) bool { return c.Name == "docket" })
			other := find(t, pod.Containers, "engine", func(c container) bool { return c.Name != "tap" })
			for _, c := range []container{tap, docket} {
				for _, m := range c.VolumeMounts {
					find(t, pod.Volumes, "volume "+m.Name, func(v volume) bool { return v.Name == m.Name })
				}
				find(t, c.VolumeMounts, "socket", func(m mount) bool {
					return m.Name == "docket-socket" && m.MountPath == directory && !m.ReadOnly
				})
				if s := c.Security; s.RunAsUser != 65532 || !s.RunAsNonRoot || !s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
					t.Errorf("%s: got %+v, want no rights", c.Name, s)
				}
			}
			if docket.RestartPolicy != "Always" {
				t.Error("docket is no native sidecar")
			}
			where := []string{"-f", "/etc/docket/docket.yaml", "--queue", cfg.Queue.Directory}
			for word, got := range map[string][]string{"run": docket.Args, "startup": docket.StartupProbe.Exec.Command, "live": docket.LivenessProbe.Exec.Command} {
				want := append([]string{"docket", "probe", word}, where...)
				if word == "run" {
					want = append([]string{"run"}, where...)
				}
				if !slices.Equal(got, want) {
					t.Errorf("got the command %q, want %q", got, want)
				}
			}
			if ready := docket.ReadinessProbe; ready.Exec.Command != nil || ready.HTTPGet.Path != "" {
				t.Errorf("got the readiness probe %+v of docket, which counts for the whole pod", ready)
			}
			if got := tap.flag("docket"); got != "unix://"+directory+"/docket.sock" {
				t.Errorf("got --docket=%s, want docket's socket", got)
			}
			ports := map[string]string{}
			for _, p := range tap.Ports {
				ports[p.Name] = fmt.Sprintf(":%d", p.ContainerPort)
			}
			if ports["tap"] != tap.flag("listen") || ports["tap-metrics"] != tap.flag("metrics") {
				t.Errorf("got the ports %v, want those of %q", ports, tap.Args)
			}
			for path, p := range map[string]probe{"/readyz": tap.ReadinessProbe, "/livez": tap.LivenessProbe} {
				if p.HTTPGet.Path != path || p.HTTPGet.Port != "tap-metrics" {
					t.Errorf("got the probe %+v, want %s of tap-metrics", p.HTTPGet, path)
				}
			}
			// shutdown-delay and the time in which requests are finished, by default.
			if got := other.Lifecycle.PreStop.Sleep.Seconds; got < 20 {
				t.Errorf("the engine is told to stop %d s after the tap, which serves for up to 20", got)
			}
			kubectl := strings.Join(blocks(t, engine, "sh", map[string]int{"Gatekeeper": 3, "Kyverno": 1}[engine]), "")
			if !strings.Contains(kubectl, `"/spec/ports/0/targetPort", "value": "tap"`) {
				t.Errorf("the Service does not lead to the port tap:\n%s", kubectl)
			}
		})
	}
}

// A tap with the defaults stays below the memory that the page says, and below the limit.
func TestMemoryOfTheTap(t *testing.T) {
	config, problems := tapcmd.Load([]byte(`apiVersion: docket.dev/v1alpha1
kind: Tap
tlsDir: /certs
upstream: {url: "https://127.0.0.1:8443"}
docket: {address: unix:///run/docket/docket.sock}
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if ceiling := fmt.Sprintf("%d MiB with the defaults", config.MemoryCeiling()>>20); !bytes.Contains(text, []byte(ceiling)) {
		t.Errorf("the page does not say %q", ceiling)
	}
	for engine, pod := range pods(t) {
		tap := find(t, pod.Containers, "container tap", func(c container) bool { return c.Name == "tap" })
		if got := tap.Resources.Limits["memory"]; got != "256Mi" || config.MemoryCeiling() > 256<<20 {
			t.Errorf("%s: got a limit of %s, want 256Mi, and a ceiling below it", engine, got)
		}
	}
}
