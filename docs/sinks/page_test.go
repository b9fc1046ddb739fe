// Package sinks tests the pages of the sinks: a reader can follow each.
package sinks

import (
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/document"
)

// around is the rest of a configuration whose sinks a page shows.
const around = "apiVersion: docket.dev/v1alpha1\nkind: Exporter\nsources: [{name: local, unix: {path: docket.sock}}]\nqueue: {directory: queue}\n"

// TestExamples loads every configuration on the pages.
func TestExamples(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("got the pages %q, %v", pages, err)
	}
	for _, name := range pages {
		if name == "kafka-consumers.md" {
			continue // about settings of others
		}
		for _, text := range document.Read(t, "sinks/"+name).Blocks(t, "yaml") {
			if _, problems := exporter.Load([]byte(around+text), builtin.Kinds()); len(problems) > 0 {
				t.Errorf("%s: %v of\n%s", name, problems, text)
			}
		}
	}
}
