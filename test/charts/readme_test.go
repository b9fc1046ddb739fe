package charts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The values of the README render, and the chart of an engine that tests use has the lines
// that the README shows.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chart(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	parent, err := os.ReadFile("testdata/engine/templates/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 3 {
		t.Fatalf("got %d blocks, want a StatefulSet, a tap and the chart of an engine", len(blocks))
	}
	for _, b := range blocks[:2] {
		render(t, chart(t), b[1])
	}
	for line := range strings.Lines(blocks[2][1]) {
		if !strings.Contains(string(parent), strings.TrimSpace(line)) {
			t.Errorf("the chart in testdata has no %q", line)
		}
	}
}
