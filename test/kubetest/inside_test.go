package kubetest

import (
	"debug/buildinfo"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestInsideRequires shows what docket's client costs a program: two modules, and no
// other version of the modules that are there.
func TestInsideRequires(t *testing.T) {
	without, sizeWithout := requirements(t, filepath.Join(gatekeeperRelease(t), "gatekeeper"))
	with, sizeWith := requirements(t, filepath.Join(gatekeeperInside(t), "gatekeeper"))
	for module, version := range without {
		if with[module] != version {
			t.Errorf("with docket's client %s is %q, and %q without", module, with[module], version)
		}
		delete(with, module)
	}
	added := slices.Sorted(maps.Keys(with))
	if want := []string{"github.com/docket-export/docket/client", "github.com/docket-export/docket/decision"}; !slices.Equal(added, want) {
		t.Errorf("docket's client adds the modules %q, want %q", added, want)
	}
	t.Logf("summary: the program has %d bytes with docket's client, %d more than without; %d modules are the same, %d are new", sizeWith, sizeWith-sizeWithout, len(without), len(added))
}

// requirements returns the versions of the modules that a program is built from.
func requirements(t *testing.T, program string) (versions map[string]string, size int64) {
	t.Helper()
	built, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	versions = make(map[string]string)
	for _, m := range built.Deps {
		versions[m.Path] = m.Version
	}
	return versions, info.Size()
}
