package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A change of the source that a defect no longer fits shows here, long before
// somebody tries the mutants.
func TestTableFitsTheSource(t *testing.T) {
	t.Chdir("../..")
	if _, err := choose(""); err != nil {
		t.Errorf("table.go has to follow the source:\n%v", err)
	}
	seen := map[string]bool{}
	for _, m := range table {
		if seen[m.defect] {
			t.Errorf("two defects are called %q", m.defect)
		}
		seen[m.defect] = true
		for _, test := range m.tests {
			if !hasTest(t, m.pkg(), test) {
				t.Errorf("%s: got no %s in %s, want the test that catches it", m.defect, test, m.pkg())
			}
		}
		if len(m.tests) == 0 {
			t.Errorf("%s: got no test that is to catch it", m.defect)
		}
	}
}

func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {") {
			return true
		}
	}
	return false
}

func TestTextThatDoesNotFit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.go")
	if err := os.WriteFile(path, []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for old, want := range map[string]string{"one": "1 two two", "two": "", "three": ""} {
		got, err := mutant{file: path, old: old, new: "1"}.source()
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("replace %q: got %q, %v, want %q", old, got, err, want)
		}
	}
}
