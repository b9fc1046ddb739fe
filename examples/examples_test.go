// Package examples starts every example with the real docket, gives it what real engines wrote, and looks at
// what arrives.
package examples

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/exporter"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every example has a test that is named as its directory, a configuration, and a row on the page.
func TestEachIsTested(t *testing.T) {
	directories, err := filepath.Glob("*/docket.yaml")
	if err != nil || len(directories) < 9 {
		t.Fatalf("got examples %q, %v", directories, err)
	}
	source, page := read(t, "examples_soak_test.go"), read(t, "README.md")
	for _, file := range directories {
		name := filepath.Dir(file)
		if !bytes.Contains([]byte(source), []byte(`start(t, "`+name+`"`)) {
			t.Errorf("no test starts %s", name)
		}
		if !strings.Contains(page, "]("+name+")") || read(t, name+"/README.md") == "" {
			t.Errorf("%s is not on the page, or has none", name)
		}
	}
}

// Every configuration of an example is one that docket takes.
func TestEachIsTaken(t *testing.T) {
	files, err := filepath.Glob("*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if base := filepath.Base(file); base != "docket.yaml" && base != "tap.yaml" {
			continue // of another program
		}
		text := []byte(read(t, file))
		_, problems := exporter.Load(text, builtin.Kinds())
		if tapcmd.IsTap(text) {
			_, problems = tapcmd.Load(text)
		}
		if len(problems) > 0 {
			t.Errorf("%s: %v", file, problems)
		}
	}
}
