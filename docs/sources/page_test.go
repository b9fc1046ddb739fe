// Package sources tests the pages of sources.
package sources

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/document"
)

func pages(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("*.md")
	if err != nil || len(names) < 6 {
		t.Fatalf("got the pages %v, %v, want one for each source", names, err)
	}
	return names
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
		for _, text := range page.Blocks(t, "yaml") {
			if strings.HasPrefix(text, "services:\n") {
				continue // of OPA
			}
			check(name, text)
		}
	}
}
