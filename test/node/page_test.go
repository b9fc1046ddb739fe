package node

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/docket-export/docket/internal/document"
)

// The table of docs/kubernetes.md has a row for each test of a fault, and none for a test that is not there.
func TestPage(t *testing.T) {
	page := document.Read(t, "kubernetes.md").Section(t, "What was promised and what was seen").Text
	rows := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)`(Test\\w+)` \\|$").FindAllStringSubmatch(page, -1) {
		rows[m[1]] = true
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllStringSubmatch(string(text), -1) {
			if name := m[1]; slices.Contains([]string{"lifecycle_test.go", "faults_test.go", "operate_test.go"}, file) && !rows[name] {
				t.Errorf("the page has no row of %s", name)
			}
			delete(rows, m[1])
		}
	}
	for name := range rows {
		t.Errorf("the page has a row of %s, and there is no such test", name)
	}
}
