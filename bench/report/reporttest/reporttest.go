// Package reporttest looks at the pages of reports.
package reporttest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/bench/report"
)

// Page returns the page of r as it is saved.
func Page(t *testing.T, r report.Report) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.md")
	if err := report.Save(path, r); err != nil {
		t.Fatal(err)
	}
	return read(t, path)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// IsPage fails unless the page at path is that of r. mend is the command that writes it.
func IsPage(t *testing.T, path string, r report.Report, mend string) {
	t.Helper()
	if read(t, path) != Page(t, r) {
		t.Errorf("%s is not that of the results: run `%s`", path, mend)
	}
}
