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
