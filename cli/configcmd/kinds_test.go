package configcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
)

// Every problem of each file in testdata/config/kinds, whose sources, sinks and taps have all
// kinds of mistakes, is in its *.problems. UPDATE=1 writes these anew. A good file has none.
func TestKinds(t *testing.T) {
	files, err := filepath.Glob("../../testdata/config/kinds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got files %q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var problems config.Problems
		if tapcmd.IsTap(text) {
			_, problems = tapcmd.Load(text)
		} else {
			_, problems = exporter.Load(text, builtin.Kinds())
		}
		base, bad := strings.CutSuffix(file, ".bad.yaml")
		if !bad {
			if len(problems) > 0 {
				t.Errorf("%s: got %v", file, problems)
			}
			continue
		}
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(base+".bad.problems", []byte(problems.Error()+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(base + ".bad.problems"); err != nil || problems.Error()+"\n" != string(want) {
			t.Errorf("%s: %v; got\n%s", file, err, problems.Error())
		}
	}
}
