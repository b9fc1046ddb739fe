package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/bench/trial"
)

func TestFindDocketNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("docket", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("text", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	find := func(name string) (docket string, err error) {
		err = trial.Run(t.Context(), func(tr *trial.T) {
			l := &lab{T: tr}
			l.findDocket(name)
			docket = l.docket
		})
		return docket, err
	}
	if got, err := find("docket"); err != nil || got != filepath.Join(here, "docket") {
		t.Errorf("got %q and error %v, want the absolute path of docket", got, err)
	}
	for _, name := range []string{"text", "missing"} {
		if _, err := find(name); err == nil || !strings.HasPrefix(err.Error(), "-docket: ") {
			t.Errorf("%s: got %v, want an error of -docket", name, err)
		}
	}
}
