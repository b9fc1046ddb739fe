//go:build soak

package monitoring

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// chosen fills in what Grafana does: every docket, and a window that the test's minute has
// many of.
var chosen = strings.NewReplacer("$job", ".+", "$instance", ".+", "$__rate_interval", "15s", "$__range", "1m", "[1h]", "[1m]")

// dashboardHasData asks every query of the dashboard.
func dashboardHasData(t *testing.T, w *watch) {
	text, err := os.ReadFile(shipped(t, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := 0
	ask := func(title, expr string) {
		t.Helper()
		queries++
		samples, err := w.p.query(chosen.Replace(expr))
		if err != nil {
			t.Errorf("%s: %v", title, err)
		} else if len(samples) == 0 {
			t.Errorf("%s: %s has no data", title, expr)
		}
	}
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			ask(p.Title, q.Expr)
		}
	}
	for _, a := range dashboard.Annotations.List {
		ask("annotations", a.Expr)
	}
	t.Logf("%d queries have data", queries)
}
