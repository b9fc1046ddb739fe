package importtest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/testinput"
)

// goMod is what go mod edit -json says of a go.mod file.
type goMod struct {
	Require []struct{ Path, Version string }
	Replace []json.RawMessage
	Exclude []json.RawMessage
}

func readMod(t *testing.T, dir string) (m goMod) {
	t.Helper()
	file := filepath.Join("..", "..", dir, "go.mod")
	if _, err := os.Stat(file); err != nil { // which the cache of go test notes
		t.Fatal(err)
	}
	if err := json.Unmarshal(run(t, "go", "mod", "edit", "-json", file), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.Bytes())
	}
	return out
}

// Who imports decision, client or webhook gets no requirement but docket's own modules.
func TestProducersGetNoRequirement(t *testing.T) {
	for dir, want := range map[string][]string{"decision": nil, "client": {module + "/decision"}, "webhook": {module + "/client", module + "/decision"}} {
		for _, r := range readMod(t, dir).Require {
			if !slices.Contains(want, r.Path) {
				t.Errorf("%s/go.mod requires %s: it must need the standard library and %q alone", dir, r.Path, want)
			}
		}
	}
}

// Nobody needs the constraint framework but who imports the policy engine.
func TestOnlyTheEngineRequiresAPolicyEngine(t *testing.T) {
	heavy := func(path string) bool {
		return inTrees("github.com/open-policy-agent", "k8s.io", "sigs.k8s.io", module+"/webhook/engine")(pkg{path: path})
	}
	for _, dir := range []string{".", "decision", "client", "webhook"} {
		for _, r := range readMod(t, dir).Require {
			if heavy(r.Path) {
				t.Errorf("%s/go.mod requires %s: only webhook/engine may", dir, r.Path)
			}
		}
	}
	if !slices.ContainsFunc(readMod(t, "webhook/engine").Require, func(r struct{ Path, Version string }) bool { return heavy(r.Path) }) {
		t.Error("webhook/engine/go.mod requires none of them: the test checks nothing")
	}
}

// go install takes no module that replaces or excludes another, and ignores the
// directives of those it requires.
func TestModulesCanBeInstalled(t *testing.T) {
	for _, dir := range []string{".", "decision", "client", "webhook", "webhook/engine"} {
		if m := readMod(t, dir); len(m.Replace)+len(m.Exclude) > 0 {
			t.Errorf("%s/go.mod: got %d replacements and %d exclusions, want none", dir, len(m.Replace), len(m.Exclude))
		}
	}
}

// A workspace takes the highest version that any of its modules requires. What is built
// in ours must be what the root's go.mod alone says, as that is what go install builds.
func TestWorkspaceRaisesNoVersion(t *testing.T) {
	required := make(map[string]string)
	for _, r := range readMod(t, ".").Require {
		required[r.Path] = r.Version
	}
	checked := 0
	testinput.Packages(t, module+"/cmd/docket")
	out := run(t, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", module+"/cmd/docket")
	for line := range strings.Lines(string(out)) {
		path, version, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || ours(path) {
			continue
		}
		checked++
		if required[path] != version {
			t.Errorf("%s: the workspace builds with %s, go.mod requires %q", path, version, required[path])
		}
	}
	if checked == 0 {
		t.Error("no library was seen: the test checks nothing")
	}
}
