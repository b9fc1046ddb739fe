package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/exporter"
)

// The parts of a configuration that pages leave out.
const (
	head    = "apiVersion: docket.dev/v1alpha1\nkind: Exporter\n"
	sources = "sources: [{name: local, unix: {path: docket.sock}}]\n"
	queue   = "queue: {directory: /var/lib/docket/queue}\n"
	sinks   = "sinks: [{name: log, stdout: {}}]\n"
)

// Every configuration on the pages of sources, sinks, redaction and the normalized form loads.
func TestExamples(t *testing.T) {
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	n := 0
	for pattern, around := range map[string]string{"sinks/*.md": head + sources + queue, "sources/*.md": "", "redaction.md": head + queue + sinks, "normalized.md": head + sources + queue} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: got the pages %q, %v", pattern, pages, err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range blocks.FindAllStringSubmatch(string(text), -1) {
				if strings.HasPrefix(m[1], "services:\n") || page == "sinks/kafka-consumers.md" {
					continue // of others
				}
				n++
				if _, problems := exporter.Load([]byte(around+m[1]), builtin.Kinds()); len(problems) > 0 {
					t.Errorf("%s: %v of\n%s", page, problems, m[1])
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("got %d configurations, want those of all pages", n)
	}
}
