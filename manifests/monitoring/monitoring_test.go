package monitoring_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	rulesFile     = "prometheusrule.yaml"
	dashboardFile = "dashboard.json"
	runbook       = "../../docs/runbook.md"
	runbookURL    = "https://github.com/docket-export/docket/blob/main/docs/runbook.md#"
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

// The panels of the dashboard have ids of their own, places that do not overlap, a title and
// an explanation, and ask the data source and the dockets that were chosen.
func TestDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			ID          int
			Type        string
			Title       string
			Description string
			GridPos     struct{ X, Y, W, H int }
			Datasource  struct{ UID string }
			Targets     []struct {
				Expr       string
				Datasource struct{ UID string }
			}
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &dashboard); err != nil {
		t.Fatal(err)
	}
	ids, places := map[int]string{}, map[[2]int]string{}
	for _, p := range dashboard.Panels {
		if other, ok := ids[p.ID]; ok {
			t.Errorf("%s has the id of %s", p.Title, other)
		}
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := places[[2]int{x, y}]; ok || x >= 24 {
					t.Fatalf("%s lies over %s, or beyond the edge", p.Title, other)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %d %q: want a title, a description, a query and the chosen data source", p.ID, p.Title)
		}
		for _, q := range p.Targets {
			if q.Datasource.UID != "${datasource}" || !strings.Contains(q.Expr, `{job=~"$job", instance=~"$instance"`) {
				t.Errorf("%s: %s does not ask the chosen dockets", p.Title, q.Expr)
			}
		}
	}
}
