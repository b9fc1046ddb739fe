// Package examples loads the configuration of every example.
package examples

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/exporter"
)

// Every configuration of an example is one that docket takes.
func TestEachIsTaken(t *testing.T) {
	files, err := filepath.Glob("*/*.yaml")
	if err != nil || len(files) < 9 {
		t.Fatalf("got the files %q, %v", files, err)
	}
	for _, file := range files {
		if base := filepath.Base(file); base != "docket.yaml" && base != "tap.yaml" {
			continue // of another program
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, problems := exporter.Load(text, builtin.Kinds())
		if tapcmd.IsTap(text) {
			_, problems = tapcmd.Load(text)
		}
		if len(problems) > 0 {
			t.Errorf("%s: %v", file, problems)
		}
	}
}
