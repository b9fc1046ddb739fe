package kubetest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/internal/artifact"
	"github.com/docket-export/docket/test/internal/patch"
)

// proposal is the page with the changes to Gatekeeper.
const proposal = "docs/upstream-gatekeeper.md"

var diffBlock = regexp.MustCompile("(?s)```diff\n(.*?)```\n")

// gatekeeperInside returns the folder with a program gatekeeper that has docket's client
// in it: the source of the release with the diffs of the proposal laid over it.
func gatekeeperInside(t testing.TB) string {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, proposal))
	if err != nil {
		t.Fatal(err)
	}
	var diffs strings.Builder
	for _, block := range diffBlock.FindAllSubmatch(page, -1) {
		diffs.Write(block[1])
	}
	changes, err := patch.Parse(diffs.String())
	if err != nil {
		t.Fatalf("%s: %v", proposal, err)
	}
	sources, err := clientSources(root)
	if err != nil {
		t.Fatal(err)
	}
	module := insideModule(changes)
	return artifact.Artifact{
		Name:    "gatekeeper-inside-" + gatekeeperVersion,
		What:    "Gatekeeper " + gatekeeperVersion + " with docket's client in it",
		Recipe:  fmt.Appendf(nil, "%s%s%x\n", module, diffs.String(), sources),
		Seconds: 20, // after the release, whose packages it has
		Make: func(ctx context.Context, dir string) error {
			source, err := gatekeeperSource(ctx, dir)
			if err != nil {
				return err
			}
			// Files in the cache of modules cannot be replaced; by another path they can.
			if err := os.Symlink(source, filepath.Join(dir, "source")); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o644); err != nil {
				return err
			}
			if err := writeOverlay(dir, changes); err != nil {
				t.Fatalf("lay %s over Gatekeeper %s: %v", proposal, gatekeeperVersion, err)
			}
			// It fetches what the build needs: where that fails, nothing is wrong here.
			if err := artifact.Run(ctx, dir, "go", "list", "-mod=mod", "-overlay=overlay.json", "-deps", gatekeeperPackage); err != nil {
				return err
			}
			if err := buildGatekeeper(ctx, dir, "-overlay=overlay.json"); err != nil {
				t.Fatalf("with the diffs of %s: %v", proposal, err)
			}
			return nil
		},
	}.Dir(t)
}

// insideModule is the go.mod of the build: that of the release, the lines that
// Gatekeeper's own gains, and where these modules are.
func insideModule(changes []patch.File) string {
	var required []string
	for _, c := range changes {
		if c.Name == "go.mod" {
			required = c.Added()
		}
	}
	return string(gatekeeperModule) + `
require (
` + strings.Join(required, "\n") + `
)

replace (
	github.com/docket-export/docket/client => ../../client
	github.com/docket-export/docket/decision => ../../decision
	` + gatekeeperPackage + ` => ./source
)
`
}

// clientSources is a hash of what the build takes from the repository.
func clientSources(root string) ([]byte, error) {
	sum := sha256.New()
	for _, module := range []string{"client", "decision"} {
		err := filepath.WalkDir(filepath.Join(root, module), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			fmt.Fprintf(sum, "%s %d\n%s", strings.TrimPrefix(path, root), len(text), text)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return sum.Sum(nil), nil
}

// writeOverlay writes into dir, which has Gatekeeper's source, the files that the
// changes make of it, and overlay.json, which tells the go command of them.
func writeOverlay(dir string, changes []patch.File) error {
	replace := make(map[string]string)
	for _, c := range changes {
		if c.Name == "go.mod" {
			continue // that of the build counts
		}
		path := filepath.Join(dir, "source", c.Name)
		var original []byte
		if !c.New() {
			var err error
			if original, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		changed, err := c.Apply(string(original))
		if err != nil {
			return err
		}
		replace[path] = filepath.Join(dir, strings.ReplaceAll(c.Name, "/", "_"))
		if err := os.WriteFile(replace[path], []byte(changed), 0o644); err != nil {
			return err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o644)
}
