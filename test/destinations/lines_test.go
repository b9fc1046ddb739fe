package destinations

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/repo"
)

// lines are what the tests send, by their number, from 1. Each test has one
// producer, so that the number of a line is the seq of its record.
type lines struct {
	samples []string // what real engines wrote
}

func readLines(t *testing.T) lines {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "testdata", "records", "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var l lines
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		l.samples = append(l.samples, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
	}
	if len(l.samples) == 0 {
		t.Fatal("there are no sample records")
	}
	return l
}

// padding gives a line the size of a small decision.
var padding = strings.Repeat("x", 200)

// line is a sample for every fourth number, and a record that says its number for
// the others.
func (l lines) line(n int) string {
	if n%4 == 0 {
		return l.samples[n/4%len(l.samples)]
	}
	return fmt.Sprintf(`{"number": %d,"decision":"deny","padding":"%s"}`, n, padding)
}

// first returns the first n lines.
func (l lines) first(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = l.line(i + 1)
	}
	return all
}

// text is lines as docket send reads them.
func text(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }
