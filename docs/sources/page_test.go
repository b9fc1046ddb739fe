// Package sources tests the pages of sources.
package sources

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/document"
)

// Pages have these sections, in this order, and others between them.
var sections = []string{"What it promises", "Minimal example", "Full example", "Keys", "Metrics", "When it fails", "Limits"}

func pages(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("*.md")
	if err != nil || len(names) < 6 {
		t.Fatalf("got the pages %v, %v, want one for each source", names, err)
	}
	return names
}

// TestForm finds on each page what a reader looks for, where it is on the others.
func TestForm(t *testing.T) {
	for _, name := range pages(t) {
		page := document.Read(t, "sources/"+name)
		if !strings.HasPrefix(page.Text, "# Source ") {
			t.Errorf("%s does not begin with its source", name)
		}
		found := slices.DeleteFunc(page.Sections(), func(s string) bool { return !slices.Contains(sections, s) })
		if !slices.Equal(found, sections) {
			t.Errorf("%s has the sections %q, want %q", name, found, sections)
		}
		if rows := page.Section(t, "When it fails").Rows(); len(rows) < 5 {
			t.Errorf("%s has %d rows on failures, want 5 at least", name, len(rows))
		}
	}
}

// head and rest make whole configurations of parts.
const head = "apiVersion: docket.dev/v1alpha1\nkind: Exporter\n"

var rest = map[string]string{
	"redaction.md":  "queue: {directory: /var/lib/docket/queue}\nsinks: [{name: log, stdout: {}}]\n",
	"normalized.md": "queue: {directory: /var/lib/docket/queue}\nsources: [{name: engine, unix: {path: /run/docket.sock}}]\n",
}

// TestExamples loads every configuration on the pages.
func TestExamples(t *testing.T) {
	check := func(page, text string) {
		t.Helper()
		if _, problems := exporter.Load([]byte(text), builtin.Kinds()); len(problems) > 0 {
			t.Errorf("%s: %v of\n%s", page, problems, text)
		}
	}
	for name, rest := range rest {
		for _, text := range document.Read(t, name).Blocks(t, "yaml") {
			check(name, head+text+rest)
		}
	}
	for _, name := range pages(t) {
		page := document.Read(t, "sources/"+name)
		whole := 0
		for _, text := range page.Blocks(t, "yaml") {
			if strings.HasPrefix(text, "services:\n") {
				readByOPA(t, text)
				continue
			}
			whole++
			check(name, text)
		}
		if whole < 2 {
			t.Errorf("%s has %d whole configurations, want 2 at least", name, whole)
		}
	}
}

// readByOPA checks the part of OPA's configuration that the page has: OPA ignores keys that it does not know.
func readByOPA(t *testing.T, text string) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	var config struct {
		Services map[string]struct {
			URL         string
			Credentials struct {
				Bearer struct {
					TokenPath string `yaml:"token_path"`
				}
			}
			TLS struct {
				CACert string `yaml:"ca_cert"`
			}
		}
		DecisionLogs struct {
			Service   string
			Reporting struct {
				BufferType string `yaml:"buffer_type"`
				Trigger    string
				MinDelay   int `yaml:"min_delay_seconds"`
				MaxDelay   int `yaml:"max_delay_seconds"`
			}
		} `yaml:"decision_logs"`
	}
	if err := decoder.Decode(&config); err != nil || config.Services["docket"].URL == "" {
		t.Errorf("got %+v, %v of\n%s", config, err, text)
	}
}
