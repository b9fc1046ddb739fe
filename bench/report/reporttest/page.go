// Package reporttest is what the tests of reports share.
package reporttest

import (
	"os"
	"testing"

	"github.com/docket-export/docket/bench/report"
)

// Page returns the page of r.
func Page(t *testing.T, r report.Report) string {
	t.Helper()
	page, err := report.Page(r)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// IsPage fails t unless the file is the page of r. The command writes it anew.
func IsPage(t *testing.T, file string, r report.Report, command string) {
	t.Helper()
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != Page(t, r) {
		t.Errorf("the page is not that of the results: run `%s`", command)
	}
}
