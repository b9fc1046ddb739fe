package cli

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/exporter/filter"
)

// pages are the pages of the documentation, and every help text.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	var files []string
	for _, pattern := range []string{"../docs/*.md", "../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("got pages %q, %v", found, err)
		}
		files = append(files, found...)
	}
	for _, file := range append(files, "../README.md") {
		all[file] = readFile(t, file)
	}
	var help func(c *cobra.Command)
	help = func(c *cobra.Command) {
		all[c.CommandPath()+" --help"] = c.Long + "\n" + c.Example
		for _, sub := range c.Commands() {
			help(sub)
		}
	}
	help(newRoot(builtin.Kinds()))
	return all
}

// What a person is told to send has a decision, for whoever filters by it.
func TestExamplesOfRecordsHaveADecision(t *testing.T) {
	sent := regexp.MustCompile(`echo '(\{.*\})' \| docket send`)
	found := map[string]bool{}
	for page, text := range pages(t) {
		for _, example := range sent.FindAllStringSubmatch(text, -1) {
			found[page] = true
			if n, ok := decision.Normalize([]byte(example[1])); !ok || n.Decision != decision.Deny && n.Decision != decision.Allow {
				t.Errorf("%s: %s: got normalized form %+v, %t, want one that says deny or allow", page, example[1], n, ok)
			}
		}
	}
	for _, page := range []string{"docket --help", "../README.md"} {
		if !found[page] {
			t.Errorf("%s has no example of a record to send", page)
		}
	}
}

// A filter of the documentation delivers some record of an engine, and not every one.
func TestExamplesOfFiltersWork(t *testing.T) {
	records := [][]byte{
		[]byte(command.ExampleRecord),
		[]byte(`{"schemaVersion":1,"decision":"deny","resourceNamespace":"shop"}`),
		[]byte(`{"schemaVersion":1,"decision":"allow","enforcementAction":"none"}`),
		[]byte(`{"kind":"Event","annotations":{"failed-open.validating.webhook.admission.k8s.io/round_0_index_0":"x"}}`),
		[]byte(`{"level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/api","verb":"create","user":{"username":"a"},"responseStatus":{"code":201},"annotations":{"failed-open.validating.webhook.admission.k8s.io/round_0_index_0":"x"}}`),
		[]byte(`{"schemaVersion":1,"eventType":"docket.export.checkpoint"}`),
	}
	files, err := filepath.Glob("../testdata/records/*.ndjson")
	if err != nil || len(files) == 0 {
		t.Fatalf("got records %q, %v", files, err)
	}
	for _, file := range files {
		records = append(records, bytes.Split(bytes.TrimSpace([]byte(readFile(t, file))), []byte("\n"))...)
	}
	when := regexp.MustCompile(`(?m)^( +)when: (?:\|\n((?:\s{4,}.*\n)+)|(.+)\n)`)
	n := 0
	for page, text := range pages(t) {
		for _, example := range when.FindAllStringSubmatch(text, -1) {
			n++
			expression := strings.TrimSpace(example[2] + example[3])
			f, err := filter.Compile(expression)
			if err != nil {
				t.Errorf("%s: when: %s: %v", page, expression, err)
				continue
			}
			var taken []bool
			for _, r := range records {
				if takes, err := f.Takes(r); err == nil {
					taken = append(taken, takes)
				}
			}
			if !slices.Contains(taken, true) || !slices.Contains(taken, false) {
				t.Errorf("%s: when: %s: of %d records it judges %d, all alike", page, expression, len(records), len(taken))
			}
		}
	}
	if n < 5 {
		t.Errorf("got %d filters, want the 5 of README and docs", n)
	}
}
