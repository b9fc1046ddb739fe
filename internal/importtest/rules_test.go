package importtest

import (
	"fmt"
	"slices"
	"strings"
)

const module = "github.com/docket-export/docket"

// await needs the standard library alone, and what helps tests anywhere waits with it.
const await = module + "/client/clienttest/await"

// pkg is what a rule needs to know of a package, test files left out.
type pkg struct {
	path     string
	standard bool     // of the standard library
	imports  []string // direct ones
}

// rule says what a set of packages may not depend on, directly or through
// others.
type rule struct {
	about  string // for the message
	of     func(path string) bool
	forbid func(dep pkg) bool
}

// below matches a package of this module and those below it.
func below(dirs ...string) func(string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool {
			root := module + "/" + dir
			return path == root || strings.HasPrefix(path, root+"/")
		})
	}
}

// only forbids every package of this module except those that allowed matches.
func only(allowed func(string) bool) func(pkg) bool {
	return func(dep pkg) bool { return ours(dep.path) && !allowed(dep.path) && dep.path != await }
}

// except forbids what only does, and every library save those named.
func except(allowed func(string) bool, libraries ...string) func(pkg) bool {
	return func(dep pkg) bool {
		if ours(dep.path) {
			return !allowed(dep.path) && dep.path != await
		}
		return !dep.standard && !slices.Contains(libraries, dep.path)
	}
}

func ours(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// concrete matches the packages of single sinks and sources, and the lists of
// them: whatever lies below the two seams.
func concrete(path string) bool {
	return below("sinks", "sources")(path) && path != module+"/sinks" && path != module+"/sources"
}

// inTrees matches import paths at or below any of roots.
func inTrees(roots ...string) func(pkg) bool {
	return func(dep pkg) bool {
		return slices.ContainsFunc(roots, func(root string) bool {
			return dep.path == root || strings.HasPrefix(dep.path, root+"/")
		})
	}
}

var rules = []rule{
	{"decision needs the standard library alone", below("decision"), except(below("decision"))},
	{"client needs the standard library and decision", below("client"), except(below("client", "decision"))},
	{
		"a webhook needs the standard library, client and decision",
		func(path string) bool { return below("webhook")(path) && !below("webhook/engine")(path) },
		except(below("webhook", "client", "decision")),
	},
	{
		"nothing outside of its module links the policy engine",
		func(path string) bool { return ours(path) && !below("webhook/engine")(path) },
		func(dep pkg) bool { return below("webhook/engine")(dep.path) },
	},
	{"the serving rules need the standard library alone", below("webhook/serving"), except(below("webhook/serving"))},
	{"config needs the standard library and a YAML parser", below("config"), except(below("config"), "go.yaml.in/yaml/v3")},
	{"sinks know nothing of what feeds them", below("sinks"), only(below("sinks", "config", "decision", "internal"))},
	{"sources know nothing of what they feed", below("sources"), only(below("sources", "config", "decision", "internal"))},
	{"the queue knows bytes, not decisions", below("exporter/queue"), only(below("exporter/queue", "internal/disk", "internal/fileversion", "internal/lineage", "internal/outage", "internal/rooted", "internal/signal"))},
	{"the exporter is not bound to a command", below("exporter"), only(below("exporter", "sinks", "sources", "config", "decision", "internal"))},
	{
		"only a program names the sinks and sources there are",
		func(path string) bool {
			return ours(path) && !below("cmd", "cli", "bench", "hack/commands", "sinks", "sources")(path)
		},
		func(dep pkg) bool { return concrete(dep.path) },
	},
	{
		"the sidecar links no policy engine and no Kubernetes client",
		below("cmd/docket", "cli"),
		inTrees("k8s.io", "sigs.k8s.io", "github.com/open-policy-agent"),
	},
	{
		"the sidecar links no test helper",
		below("cmd/docket", "cli"),
		inTrees("testing", "github.com/twmb/franz-go/pkg/kfake"),
	},
}

// violations checks every package against every rule. Each text shows the way
// from the package to what it may not depend on. The order is that of packages
// and rules.
func violations(packages []pkg, rules []rule) []string {
	known := make(map[string]pkg, len(packages))
	for _, p := range packages {
		known[p.path] = p
	}
	var found []string
	for _, p := range packages {
		for _, r := range rules {
			if !r.of(p.path) {
				continue
			}
			if way := wayTo(p, known, r.forbid); way != nil {
				found = append(found, fmt.Sprintf("%s: %s", r.about, strings.Join(way, " -> ")))
			}
		}
	}
	return found
}

// wayTo returns the shortest chain of imports from p to a forbidden package, nil
// when there is none.
func wayTo(p pkg, known map[string]pkg, forbid func(pkg) bool) []string {
	from := map[string]string{p.path: ""} // each package seen, and who led to it
	for queue := []string{p.path}; len(queue) > 0; queue = queue[1:] {
		path := queue[0]
		if path != p.path && forbid(known[path]) {
			var way []string
			for ; path != ""; path = from[path] {
				way = append(way, path)
			}
			slices.Reverse(way)
			return way
		}
		for _, dep := range known[path].imports {
			if _, seen := from[dep]; !seen {
				from[dep] = path
				queue = append(queue, dep)
			}
		}
	}
	return nil
}
