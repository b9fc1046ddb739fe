package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const page = "../../docs/threat-model.md"

// testName is how a row names a test: its package from the root of the repository, and
// the function.
var testName = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9_]+)`")

// Every row about an attack names a test that shows what stands in the way, and the test
// is there.
func TestThreatModelNamesTests(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows := attacks(string(text))
	if len(rows) < 40 {
		t.Fatalf("found %d rows about attacks in %s: has its form changed?", len(rows), page)
	}
	for _, row := range rows {
		named := testName.FindAllStringSubmatch(row, -1)
		if len(named) == 0 {
			t.Errorf("no test is named by the row\n\t%s", row)
		}
		for _, n := range named {
			if !hasTest(t, n[1], n[2]) {
				t.Errorf("there is no test %s in %s, which is named by the row\n\t%s", n[2], n[1], row)
			}
		}
	}
}

// attacks returns the rows of the tables whose last column is "test".
func attacks(text string) (rows []string) {
	in := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(line, "| test |"):
			in = true
		case !strings.HasPrefix(line, "|"):
			in = false
		case in && !strings.HasPrefix(line, "|---"):
			rows = append(rows, line)
		}
	}
	return rows
}

// hasTest reports whether a file of the package declares the test.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
