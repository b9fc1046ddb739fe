package importtest

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/testinput"
)

const module = "github.com/docket-export/docket"

// await needs the standard library alone, and what helps tests anywhere waits with it.
const await = module + "/client/clienttest/await"

// rule says what packages may depend on, directly or through others. Names are directories of
// this repository, with those below them.
type rule struct {
	about  string // for the message
	of     []string
	not    []string // packages of these directories are no part of it
	ours   []string // that it may depend on; nil: all
	others []string // packages of other modules that it may depend on; nil: all
	never  []string // import paths, with those below them
}

var rules = []rule{
	{about: "decision needs the standard library alone", of: []string{"decision"}, ours: []string{"decision"}, others: []string{}},
	{about: "client needs the standard library and decision", of: []string{"client"}, ours: []string{"client", "decision"}, others: []string{}},
	{about: "a webhook needs the standard library, client and decision", of: []string{"webhook"}, not: []string{"webhook/engine"}, ours: []string{"webhook", "client", "decision"}, others: []string{}},
	{about: "nothing outside of its module links the policy engine", of: []string{""}, not: []string{"webhook/engine"}, never: []string{module + "/webhook/engine"}},
	{about: "the serving rules need the standard library alone", of: []string{"webhook/serving"}, ours: []string{"webhook/serving"}, others: []string{}},
	{about: "config needs the standard library and a YAML parser", of: []string{"config"}, ours: []string{"config"}, others: []string{"go.yaml.in/yaml/v3"}},
	{about: "sinks know nothing of what feeds them", of: []string{"sinks"}, ours: []string{"sinks", "config", "decision", "internal"}},
	{about: "sources know nothing of what they feed", of: []string{"sources"}, ours: []string{"sources", "config", "decision", "internal"}},
	{about: "the queue knows bytes, not decisions", of: []string{"exporter/queue"}, ours: []string{"exporter/queue", "internal/disk", "internal/fileversion", "internal/lineage", "internal/outage", "internal/rooted", "internal/signal"}},
	{about: "the exporter is not bound to a command", of: []string{"exporter"}, ours: []string{"exporter", "sinks", "sources", "config", "decision", "internal"}},
	{
		about: "only a program names the sinks and sources there are",
		of:    []string{""}, not: []string{"cmd", "cli", "hack/commands", "sinks", "sources"},
		never: []string{
			module + "/sinks/filesink", module + "/sinks/httpsink", module + "/sinks/kafkasink", module + "/sinks/stdoutsink", module + "/sources/streamsource",
			module + "/sources/gatekeepersource", module + "/sources/opasource", module + "/sources/kubeauditsource", module + "/sources/tailsource",
		},
	},
	{about: "the sidecar links no policy engine, no Kubernetes client and no test helper", of: []string{"cmd/docket", "cli"}, never: []string{"k8s.io", "sigs.k8s.io", "github.com/open-policy-agent", "testing", "github.com/twmb/franz-go/pkg/kfake"}},
}

func TestImportsGoOneWay(t *testing.T) {
	testinput.Packages(t, module+"/...")
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, module+"/...")
	var said strings.Builder
	list.Stderr = &said
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, said.String())
	}
	checked := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		packages := strings.Fields(line)
		for _, r := range rules {
			if !isIn(packages[0], r.of) || isIn(packages[0], r.not) {
				continue
			}
			checked[r.about] = true
			for _, dep := range packages[1:] {
				if r.forbids(dep) {
					t.Errorf("%s: %s depends on %s", r.about, packages[0], dep)
				}
			}
		}
	}
	for _, r := range rules {
		if !checked[r.about] {
			t.Errorf("%s: there is no such package", r.about)
		}
	}
}

func (r rule) forbids(dep string) bool {
	first, _, _ := strings.Cut(dep, "/")
	switch {
	case slices.ContainsFunc(r.never, func(root string) bool { return below(dep, root) }):
		return true
	case below(dep, module):
		return r.ours != nil && !isIn(dep, r.ours) && dep != await
	case strings.Contains(first, "."): // else it is of the standard library
		return r.others != nil && !slices.Contains(r.others, dep)
	}
	return false
}

// isIn reports whether a package is in one of directories or below.
func isIn(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return below(path, strings.TrimSuffix(module+"/"+dir, "/")) })
}

func below(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// Who imports decision, client or webhook gets no requirement but docket's own modules, and go
// install takes no module that replaces or excludes another.
func TestProducersGetNoRequirement(t *testing.T) {
	for _, dir := range []string{".", "decision", "client", "webhook", "webhook/engine"} {
		text, err := os.ReadFile("../../" + dir + "/go.mod")
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(`(?m)^(replace|exclude)\b.*`).Find(text); found != nil {
			t.Errorf("%s/go.mod: got %s", dir, found)
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:require )?\s*(\S+) v\d`).FindAllSubmatch(text, -1) {
			path := string(m[1])
			if slices.Contains([]string{"decision", "client", "webhook"}, dir) && !below(path, module) {
				t.Errorf("%s/go.mod requires %s: it must need the standard library and docket's modules alone", dir, path)
			}
			if dir != "webhook/engine" && (below(path, "k8s.io") || below(path, "github.com/open-policy-agent")) {
				t.Errorf("%s/go.mod requires %s: only webhook/engine may", dir, path)
			}
		}
	}
}
