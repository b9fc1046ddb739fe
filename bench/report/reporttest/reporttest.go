// Package reporttest looks at the pages of reports.
package reporttest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/bench/report"
)

// Page returns the page of r as it is saved under a name, and its charts: their text by
// path, seen from the directory of the page.
func Page(t *testing.T, r report.Report, name string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := report.Save(path, r); err != nil {
		t.Fatal(err)
	}
	return read(t, path)
}

// read returns the files of the page at path.
func read(t *testing.T, path string) map[string]string {
	t.Helper()
	charts, err := filepath.Glob(filepath.Join(strings.TrimSuffix(path, filepath.Ext(path)), "*"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, file := range append(charts, path) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		inside, err := filepath.Rel(filepath.Dir(path), file)
		if err != nil {
			t.Fatal(err)
		}
		files[inside] = string(text)
	}
	return files
}

// IsPage fails unless the page at path, with its charts, is that of r. mend is the
// command that writes it.
func IsPage(t *testing.T, path string, r report.Report, mend string) {
	t.Helper()
	want, got := Page(t, r, filepath.Base(path)), read(t, path)
	if have, need := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(have, need) {
		t.Errorf("got the files %q, want %q: run `%s`", have, need, mend)
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is not that of the results: run `%s`", name, mend)
		}
	}
}
