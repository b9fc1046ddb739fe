package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	l := &lab{}
	if err := l.findDocket(t.Context(), "docket"); err != nil || l.docket != filepath.Join(here, "docket") {
		t.Errorf("got %q and error %v, want the absolute path of docket", l.docket, err)
	}
	for _, name := range []string{"text", "missing"} {
		if err := l.findDocket(t.Context(), name); err == nil || !strings.HasPrefix(err.Error(), "-docket: ") {
			t.Errorf("%s: got %v, want an error of -docket", name, err)
		}
	}
}
