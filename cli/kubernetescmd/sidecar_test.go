package kubernetescmd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/config"
)

const usual = `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: engine
  unix: {path: /run/docket/docket.sock}
queue: {directory: /var/lib/docket/queue, maxBytes: 512Mi}
sinks:
- name: siem
  http: {url: https://siem.example.com/ingest}
metrics: {address: ":9465"}
shutdown: {drainTimeout: 20s}
`

// sidecar runs docket kubernetes sidecar with the configuration text.
func sidecar(t *testing.T, text string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "docket.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := New(builtin.Kinds())
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"sidecar", "-f", file}, args...))
	var out bytes.Buffer
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// written is what the command writes.
func written(t *testing.T, text string, args ...string) string {
	t.Helper()
	out, err := sidecar(t, text, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// edited is the usual configuration with another text in place of one.
func edited(t *testing.T, old, text string) string {
	t.Helper()
	if strings.Count(usual, old) != 1 {
		t.Fatalf("%q is not once in the configuration", old)
	}
	return strings.Replace(usual, old, text, 1)
}

// What is written is in testdata, to be read. UPDATE=1 writes it anew.
func TestWritten(t *testing.T) {
	for name, args := range map[string][]string{
		"usual.yaml": nil,
		"patch.yaml": {"--image", "registry.example.com/docket:1.0.0", "--engine", "manager", "--name", "webhook", "--volume", "claim=docket-queue", "--blocking-strict", "--secret", "siem-token=/etc/docket-siem", "-o", "patch"},
		"plain.yaml": {"--plain", "--volume", "ephemeral", "--shutdown-delay", "5s", "--fs-group", "999", "--mount", "violations=/tmp/violations"},
	} {
		got, err := sidecar(t, usual, args...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		golden := filepath.Join("testdata", name)
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || got != string(want) {
			t.Errorf("%s: %v; got\n%s", name, err, got)
		}
	}
}

// YAML and JSON say the same.
func TestForms(t *testing.T) {
	var fromYAML, fromJSON any
	if err := errors.Join(yaml.Unmarshal([]byte(written(t, usual)), &fromYAML), yaml.Unmarshal([]byte(written(t, usual, "-o", "json")), &fromJSON)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(fromYAML, fromJSON) {
		t.Errorf("YAML has\n%v\nand JSON\n%v", fromYAML, fromJSON)
	}
}

func TestVolumeSize(t *testing.T) {
	sink := func(more string) string {
		return edited(t, "  http: {url: https://siem.example.com/ingest}\n", "  http: {url: https://siem.example.com/ingest}\n"+more)
	}
	export := func(section string) string {
		return sink("- name: copy\n  onReject: Block\n  file: {directory: /var/lib/docket/export, " + section + "}\n")
	}
	for name, test := range map[string]struct{ text, want string }{
		"queue, letters thrice, refused lines, spare": {usual, "1408Mi"},
		"letters that are bounded":                    {sink("  deadLetters: {maxBytes: 32Mi}\n"), "736Mi"},
		"no letters":                                  {sink("  onReject: Drop\n"), "640Mi"},
		"more left free":                              {edited(t, "maxBytes: 512Mi", "maxBytes: 512Mi, minFreeBytes: 128Mi"), "1472Mi"},
		"less left free":                              {edited(t, "maxBytes: 512Mi", "maxBytes: 512Mi, minFreeBytes: 1Mi"), "1408Mi"},
		"not a whole MiB":                             {edited(t, "maxBytes: 512Mi", "maxBytes: 536870913"), "1409Mi"},
		"export by its total":                         {export("retain: {maxTotalBytes: 1Gi}"), "2560Mi"},
		"export by its files":                         {export("retain: {maxFiles: 3}, rotate: {maxBytes: 8Mi}"), "1448Mi"},
		"export of files shorter than a batch":        {export("retain: {maxFiles: 3}, rotate: {maxBytes: 1Mi}"), "1428Mi"},
	} {
		if got := written(t, test.text); !strings.Contains(got, "  emptyDir:\n    sizeLimit: "+test.want+"\n") {
			t.Errorf("%s: want a volume of %s in\n%s", name, test.want, got)
		}
	}
}

func TestGracePeriod(t *testing.T) {
	for name, test := range map[string]struct {
		drain, delay string
		want, sleep  int64
	}{
		"both":           {"20s", "30s", 60, 30},
		"no engine":      {"20s", "0s", 30, 0},
		"not whole ones": {"1500ms", "2300ms", 14, 3},
	} {
		text := edited(t, "drainTimeout: 20s", "drainTimeout: "+test.drain)
		grace, sleep := fmt.Sprintf("terminationGracePeriodSeconds: %d\n", test.want), fmt.Sprintf("sleep:\n        seconds: %d\n", test.sleep)
		plain := written(t, text, "--shutdown-delay", test.delay, "--plain")
		if !strings.Contains(plain, grace) || strings.Contains(plain, sleep) != (test.sleep > 0) {
			t.Errorf("%s: want %d s, and a sleep of %d s, in\n%s", name, test.want, test.sleep, plain)
		}
		if native := written(t, text, "--shutdown-delay", test.delay); !strings.Contains(native, grace) || strings.Contains(native, "sleep:") {
			t.Errorf("%s: want %d s and no sleep of a native sidecar in\n%s", name, test.want, native)
		}
	}
}

// What docket needs at most, and nothing that it does not have.
func TestContainer(t *testing.T) {
	remote := `sources:
- name: remote
  tcp: {address: ":9467", tls: {certFile: /etc/docket-tls/tls.crt, keyFile: /etc/docket-tls/tls.key}}
- name: opa
  opa: {address: "127.0.0.1:8282"}
`
	text := edited(t, "sources:\n- name: engine\n  unix: {path: /run/docket/docket.sock}\n", remote)
	text = strings.Replace(text, `metrics: {address: ":9465"}`+"\n", "limits: {maxRecordBytes: 16Mi}\n", 1)
	got := written(t, text, "--secret", "docket.tls=/etc/docket-tls", "--image", "12:34")
	for _, want := range []string{
		"  ports:\n  - containerPort: 9467\n  startupProbe:", "image: \"12:34\"\n",
		"- name: docket-secret-docket-tls\n  secret:\n    secretName: docket.tls\n    defaultMode: 288\n",
		"- name: docket-config\n    mountPath: /etc/docket\n    readOnly: true\n  - name: docket-queue\n    mountPath: /var/lib/docket\n  - name: docket-secret-docket-tls\n    mountPath: /etc/docket-tls\n    readOnly: true\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant in it\n%s", got, want)
		}
	}
	if strings.Contains(got, "docket-socket") || strings.Contains(got, "readinessProbe") {
		t.Errorf("got\n%s\nwant no directory of a socket, and no probe that counts for the whole pod", got)
	}
	var limit config.Size
	_, rest, _ := strings.Cut(got, "limits:\n      memory: ")
	text, _, _ = strings.Cut(rest, "\n")
	if err := limit.UnmarshalText([]byte(text)); err != nil || limit < 500<<20 {
		t.Errorf("memory with records of 16Mi: got %s, %v, want what their buffers take", text, err)
	}
}

func TestRefused(t *testing.T) {
	export := func(section string) string {
		return edited(t, "metrics:", "- name: copy\n  file: {"+section+"}\nmetrics:")
	}
	source := func(text string) string { return edited(t, "unix: {path: /run/docket/docket.sock}", text) }
	for name, test := range map[string]struct {
		text string
		args []string
		want string
	}{
		"queue elsewhere":              {edited(t, "/var/lib/docket/queue", "/var/lib/docket-2/queue"), nil, ":6: queue.directory: /var/lib/docket-2/queue is outside the volume"},
		"queue here":                   {edited(t, "/var/lib/docket/queue", "docket-data/queue"), nil, "queue.directory: docket-data/queue is outside the volume"},
		"export elsewhere":             {export("directory: /var/log/docket, retain: {maxTotalBytes: 1Gi}"), nil, "sinks[1].file.directory: /var/log/docket is outside the volume"},
		"export unbounded":             {export("directory: /var/lib/docket/export"), nil, "sinks[1].file.retain.maxTotalBytes: is required on a volume of kind emptyDir"},
		"export by age":                {export("directory: /var/lib/docket/export, retain: {maxAge: 24h}"), []string{"--volume", "ephemeral"}, "sinks[1].file.retain.maxTotalBytes: is required on a volume of kind ephemeral"},
		"files unbounded":              {export("directory: /var/lib/docket/export, retain: {maxFiles: 2}, rotate: {maxBytes: 0}"), nil, "sinks[1].file.rotate.maxBytes: is required"},
		"socket elsewhere":             {source("unix: {path: /tmp/docket.sock}"), nil, "sources[0].unix.path: /tmp/docket.sock is not in /run/docket"},
		"socket too deep":              {source("unix: {path: /run/docket/a/docket.sock}"), nil, "sources[0].unix.path: /run/docket/a/docket.sock is not in /run/docket"},
		"socket of docket's":           {source(`unix: {path: /run/docket/docket.sock, mode: "0600"}`), nil, `sources[0].unix.mode: 0600 locks out an engine that runs as another user than docket: use "0660" at least`},
		"socket of another group":      {source(`unix: {path: /run/docket/docket.sock, group: "1234"}`), nil, "sources[0].unix.group: docket is not a member of group 1234, so nobody can connect: leave the key out, and the socket gets the group of the pod, 65532"},
		"logs that are not":            {source("gatekeeper: {path: /tmp/violations/topics}"), nil, "sources[0].gatekeeper.path: /tmp/violations/topics is not in a volume of the container: mount the pod's volume with --mount VOLUME=/tmp/violations"},
		"a secret that is not":         {edited(t, "{url: https://siem.example.com/ingest}", "{url: https://siem.example.com/ingest, bearerTokenFile: /etc/docket-siem/token}"), nil, "sinks[0].http.bearerTokenFile: /etc/docket-siem/token is not in a volume of the container: mount its Secret with --secret NAME=/etc/docket-siem"},
		"a configuration that is none": {edited(t, "url: https", "uri: https"), nil, "sinks[0].http.uri"},
	} {
		out, err := sidecar(t, test.text, test.args...)
		_, misconfigured := errors.AsType[*command.ConfigError](err)
		if !misconfigured || !strings.Contains(err.Error(), test.want) || out != "" {
			t.Errorf("%s: got %q, %v, want %q", name, out, err, test.want)
		}
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"medium":                      {[]string{"--volume", "Memory"}, "must be one of"},
		"claim without a name":        {[]string{"--volume", "claim="}, "must be one of"},
		"mount without a path":        {[]string{"--mount", "violations"}, "must be formatted as key=value"},
		"secret of no directory":      {[]string{"--secret", "token=etc"}, "must be NAME=DIRECTORY"},
		"engine that is early":        {[]string{"--shutdown-delay=-5s"}, "--shutdown-delay must not be negative"},
		"no image":                    {[]string{"--image", ""}, "--image must not be empty"},
		"engine that is docket":       {[]string{"--engine", "docket"}, "--engine must not be docket"},
		"secret over the queue":       {[]string{"--secret", "token=/var/lib/docket/queue"}, "overlaps /var/lib/docket, a directory of docket's own"},
		"secret in the configuration": {[]string{"--secret", "token=/etc/docket/siem/"}, "overlaps /etc/docket, a directory of docket's own"},
		"volume over everything":      {[]string{"--mount", "all=/"}, "overlaps /etc/docket"},
	} {
		if out, err := sidecar(t, usual, test.args...); err == nil || !strings.Contains(err.Error(), test.want) || out != "" {
			t.Errorf("%s: got %q, %v, want %q", name, out, err, test.want)
		}
	}
	if _, err := sidecar(t, "apiVersion: docket.dev/v1alpha1\nkind: Tap\n"); err == nil || !strings.Contains(err.Error(), "kind Tap") {
		t.Errorf("a tap: got %v, want that it is one", err)
	}
}

// What is refused otherwise is good where the pod gives it.
func TestTaken(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		args []string
	}{
		"an unbounded export on a claim": {edited(t, "metrics:", "- name: copy\n  file: {directory: /var/lib/docket/export}\nmetrics:"), []string{"--volume", "claim=docket-queue"}},
		"a mounted input":                {edited(t, "unix: {path: /run/docket/docket.sock}", "gatekeeper: {path: /tmp/violations/topics}"), []string{"--mount", "tmp-violations=/tmp/violations"}},
		"a socket in a mounted volume":   {edited(t, "/run/docket/docket.sock", "/shared/docket.sock"), []string{"--mount", "shared=/shared"}},
		"a secret":                       {edited(t, "{url: https://siem.example.com/ingest}", "{url: https://siem.example.com/ingest, bearerTokenFile: /etc/docket-siem/token}"), []string{"--secret", "siem=/etc/docket-siem"}},
		"the queue at the mount":         {edited(t, "/var/lib/docket/queue", "/var/lib/docket"), nil},
	} {
		if _, err := sidecar(t, test.text, test.args...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
