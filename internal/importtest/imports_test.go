package importtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/testinput"
)

func TestImportsGoOneWay(t *testing.T) {
	packages := list(t)
	for _, want := range []string{"decision", "client", "webhook", "config", "sinks", "sources", "exporter", "exporter/queue", "cli", "cmd/docket"} {
		if !slices.ContainsFunc(packages, func(p pkg) bool { return p.path == module+"/"+want }) {
			t.Errorf("package %s is not there: its rules check nothing", want)
		}
	}
	for _, v := range violations(packages, rules) {
		t.Error(v)
	}
}

// The policy engine is a module of its own, and its packages are seen from there alone.
func TestPolicyImportsNoSister(t *testing.T) {
	out := run(t, "go", "list", "-C", "../../webhook/engine", "-deps", module+"/webhook/engine/policy")
	for path := range strings.FieldsSeq(string(out)) {
		if ours(path) && !below("webhook/engine/policy", "decision")(path) {
			t.Errorf("policy imports %s", path)
		}
	}
	if !strings.Contains(string(out), "github.com/open-policy-agent/frameworks/constraint/pkg/client\n") {
		t.Errorf("go list says %q: the test checks nothing", out)
	}
}

// list returns the packages of this module and everything they depend on.
func list(t *testing.T) []pkg {
	t.Helper()
	testinput.Packages(t, module+"/...")
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports", module+"/...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Standard   bool
			Imports    []string
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("go list: read output: %v", err)
		}
		// "C" is how a file asks for cgo, not a package.
		imports := slices.DeleteFunc(p.Imports, func(path string) bool { return path == "C" })
		packages = append(packages, pkg{p.ImportPath, p.Standard, imports})
	}
}

// Each rule must catch the import it is there to catch.
func TestRulesCatch(t *testing.T) {
	tests := map[string]struct {
		imports string // "a > b > c": each imports the next; m stands for the module
		want    string // what the rule is about; empty: allowed
	}{
		"decision alone":                {"m/decision > encoding/json", ""},
		"decision and its parts":        {"m/decision/stream > m/decision", ""},
		"decision and a library":        {"m/decision > github.com/google/uuid", "decision needs"},
		"decision and config":           {"m/decision/stream > m/config", "decision needs"},
		"client and decision":           {"m/client > m/decision/stream", ""},
		"client and a library":          {"m/client > github.com/google/uuid", "client needs"},
		"client and its file":           {"m/client > m/client/configfile", "client needs"},
		"client's file and YAML":        {"m/client/configfile > go.yaml.in/yaml/v3", ""},
		"client's file and a library":   {"m/client/configfile > github.com/google/uuid", "the client's configuration file"},
		"client and sinks":              {"m/client/gatekeeperexport > m/sinks", "client needs"},
		"webhook and client":            {"m/webhook > m/client > m/decision", ""},
		"webhook and its parts":         {"m/webhook/tap > m/webhook > m/webhook/serving", ""},
		"webhook and a library":         {"m/webhook > github.com/google/uuid", "a webhook needs"},
		"webhook and a YAML parser":     {"m/webhook > m/client/configfile", "a webhook needs"},
		"webhook and the exporter":      {"m/webhook/tap > m/exporter", "a webhook needs"},
		"webhook and the engine":        {"m/webhook/tap > m/webhook/engine/policy", "nothing outside"},
		"command and our engine":        {"m/cmd/docket > m/cli > m/webhook/engine/cli", "nothing outside"},
		"serving and the client":        {"m/webhook/serving > m/client", "the serving rules"},
		"serving and decision":          {"m/webhook/serving > m/decision", "the serving rules"},
		"client and the webhook":        {"m/client > m/webhook", "client needs"},
		"config and YAML":               {"m/config > go.yaml.in/yaml/v3", ""},
		"config and another library":    {"m/config > github.com/spf13/cobra", "config needs"},
		"config and decision":           {"m/config > m/decision", "config needs"},
		"sink and its library":          {"m/sinks/kafkasink > github.com/segmentio/kafka-go", ""},
		"sink and exporter":             {"m/sinks/filesink > m/exporter/queue", "sinks know nothing"},
		"sink and sources":              {"m/sinks > m/sources", "sinks know nothing"},
		"source and exporter":           {"m/sources/streamsource > m/exporter", "sources know nothing"},
		"source and sinks":              {"m/sources > m/sinks", "sources know nothing"},
		"source and command":            {"m/sources > m/cmd/docket", "sources know nothing"},
		"source through the config":     {"m/sources > m/config > m/exporter", "sources know nothing"},
		"queue and decision":            {"m/exporter/queue > m/decision", "the queue knows"},
		"queue and exporter":            {"m/exporter/queue > m/exporter", "the queue knows"},
		"queue and its parts":           {"m/exporter/queue/crashfs > m/exporter/queue", ""},
		"queue and the disk":            {"m/exporter/queue > m/internal/disk", ""},
		"exporter and its seams":        {"m/exporter > m/sinks", ""},
		"exporter and command":          {"m/exporter > m/cli", "the exporter is not"},
		"exporter and a sink":           {"m/exporter > m/sinks/filesink", "only a program"},
		"exporter and the list":         {"m/exporter > m/sinks/all", "only a program"},
		"exporter and a source":         {"m/exporter > m/sources/streamsource/wire", "only a program"},
		"bench and a sink":              {"m/bench > m/sinks/filesink", ""},
		"client and the list":           {"m/client > m/sinks/all", "only a program"},
		"command and a sink":            {"m/cmd/docket > m/cli > m/sinks/filesink", ""},
		"page of the commands":          {"m/hack/commands > m/cli/builtin > m/sinks/filesink", ""},
		"command and Kubernetes":        {"m/cmd/docket > example.test/a > k8s.io/client-go/rest", "the sidecar links no policy"},
		"command and the engine":        {"m/cmd/docket > github.com/open-policy-agent/opa/rego", "the sidecar links no policy"},
		"command and a near name":       {"m/cmd/docket > k8s.io.example/client-go", ""},
		"webhook command and engine":    {"m/webhook/engine/policy > github.com/open-policy-agent/opa/rego", ""},
		"command and the test helpers":  {"m/cmd/docket > m/sinks/filesink > testing", "the sidecar links no test"},
		"command and the test broker":   {"m/cmd/docket > github.com/twmb/franz-go/pkg/kfake", "the sidecar links no test"},
		"a module whose name begins so": {"github.com/docket-export/docket-extra > m/sinks/filesink", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var chain []string
			for path := range strings.SplitSeq(tt.imports, " > ") {
				if rest, ok := strings.CutPrefix(path, "m/"); ok {
					path = module + "/" + rest
				}
				chain = append(chain, path)
			}
			packages := chainOf(chain)
			// Only the first package: the rules of those after it are not
			// what the case is about.
			got := violations(packages, rules)
			got = slices.DeleteFunc(got, func(v string) bool {
				_, way, _ := strings.Cut(v, ": ")
				return !strings.HasPrefix(way, chain[0]+" -> ")
			})
			if tt.want == "" {
				if len(got) > 0 {
					t.Errorf("got %q, want nothing", got)
				}
				return
			}
			caught := slices.ContainsFunc(got, func(v string) bool {
				return strings.HasPrefix(v, tt.want) && strings.HasSuffix(v, chain[len(chain)-1])
			})
			if !caught {
				t.Errorf("got %q, want one that begins with %q", got, tt.want)
			}
		})
	}
}

// chainOf makes packages of which each imports the next.
func chainOf(paths []string) []pkg {
	packages := make([]pkg, len(paths))
	for i, path := range paths {
		first, _, _ := strings.Cut(path, "/")
		packages[i] = pkg{path: path, standard: !strings.Contains(first, ".")}
		if i+1 < len(paths) {
			packages[i].imports = []string{paths[i+1]}
		}
	}
	return packages
}
