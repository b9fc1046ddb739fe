package monitoring_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	rulesFile  = "prometheusrule.yaml"
	runbook    = "../../docs/runbook.md"
	runbookURL = "https://github.com/docket-export/docket/blob/main/docs/runbook.md#"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type rule struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

// rules are those of every group.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct {
		Spec struct{ Groups []struct{ Rules []rule } }
	}
	if err := yaml.Unmarshal([]byte(read(t, rulesFile)), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Spec.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// Each alert says how bad it is and what it is, and leads to a section of the runbook that
// has its name; and the runbook has a section for no other.
func TestAlertsLeadToTheRunbook(t *testing.T) {
	var sections []string
	for _, m := range regexp.MustCompile(`(?m)^### (Docket\w+)$`).FindAllStringSubmatch(read(t, runbook), -1) {
		sections = append(sections, m[1])
	}
	for _, r := range rules(t) {
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q, want critical or warning", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: want a summary and a description", r.Alert)
		}
		if got, want := r.Annotations["runbook_url"], runbookURL+strings.ToLower(r.Alert); got != want {
			t.Errorf("%s: runbook_url %s, want %s", r.Alert, got, want)
		}
		i := slices.Index(sections, r.Alert)
		if i < 0 {
			t.Errorf("%s: %s has no section of that name", r.Alert, runbook)
			continue
		}
		sections = slices.Delete(sections, i, i+1)
	}
	if len(sections) > 0 {
		t.Errorf("%s has sections for alerts that there are not: %v", runbook, sections)
	}
}
