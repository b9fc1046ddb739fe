// Command crosscheck type-checks every package of this repository's program, and of the
// modules that producers import, for every platform they are released for. It compiles
// nothing, so that it takes seconds for a platform and not a minute: of packages
// from elsewhere it reads the declarations alone. What the compiler would say of
// a type, or of a constant that a platform's int does not hold, it says too.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// platforms are those that docket is released for. Producers run on more, and the policy
// engine on those that most nodes of Kubernetes are.
var (
	platforms = []string{"linux/amd64", "linux/arm64", "linux/arm", "linux/386", "linux/s390x", "linux/ppc64le", "linux/riscv64"}
	engine    = []string{"linux/amd64", "linux/arm64"}
	producers = append([]string{"darwin/arm64", "windows/amd64"}, platforms...)
)

func main() {
	failed := false
	for _, module := range []struct {
		dir, packages string
		platforms     []string
	}{
		{".", "./cmd/docket", platforms},
		{"decision", "./...", producers},
		{"client", "./...", producers},
		{"client/configfile", "./...", producers},
		{"webhook", "./...", producers},
		{"webhook/engine", "./...", engine},
	} {
		for _, platform := range module.platforms {
			fmt.Printf("cross %s %s\n", filepath.Join(module.dir, module.packages), platform)
			if err := check(module.dir, module.packages, platform); err != nil {
				fmt.Fprintln(os.Stderr, err)
				failed = true
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}

// listed is what go list says of a package.
type listed struct {
	Dir, ImportPath string
	GoFiles         []string
	ImportMap       map[string]string
	Standard        bool
	Module          *struct{ Main bool }
	Error           *struct{ Err string }
}

// check type-checks packages of the module in dir, and all that they import.
func check(dir, packages, platform string) error {
	goos, goarch, _ := strings.Cut(platform, "/")
	list := exec.Command("go", "list", "-deps", "-json=Dir,ImportPath,GoFiles,ImportMap,Standard,Module,Error", packages)
	list.Dir, list.Stderr = dir, os.Stderr
	list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("%s: go list: %w", platform, err)
	}
	c := checker{fset: token.NewFileSet(), sizes: types.SizesFor("gc", goarch), done: map[string]*types.Package{"unsafe": types.Unsafe}}
	var errs []error
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return errors.Join(errs...)
		} else if err != nil {
			return fmt.Errorf("%s: go list: %w", platform, err)
		}
		if err := c.check(&p); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", platform, err))
		}
	}
}

// checker type-checks packages for one platform, each after those it imports.
type checker struct {
	fset  *token.FileSet
	sizes types.Sizes
	done  map[string]*types.Package
}

func (c *checker) check(p *listed) error {
	if p.Error != nil {
		return fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err)
	}
	if p.ImportPath == "unsafe" {
		return nil
	}
	files, err := c.parse(p)
	if err != nil {
		return err
	}
	var errs []error
	config := types.Config{
		Sizes:            c.sizes,
		IgnoreFuncBodies: p.Module == nil || !p.Module.Main,
		FakeImportC:      true,
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if imported, ok := c.done[path]; ok {
				return imported, nil
			}
			return nil, fmt.Errorf("%s is not among what go list names", path)
		}),
		Error: func(err error) { errs = append(errs, err) },
	}
	c.done[p.ImportPath], _ = config.Check(p.ImportPath, c.fset, files, nil)
	return errors.Join(errs...)
}

// parse reads the files of p at once.
func (c *checker) parse(p *listed) ([]*ast.File, error) {
	files, errs := make([]*ast.File, len(p.GoFiles)), make([]error, len(p.GoFiles))
	var all sync.WaitGroup
	for i, name := range p.GoFiles {
		all.Go(func() {
			files[i], errs[i] = parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		})
	}
	all.Wait()
	return files, errors.Join(errs...)
}

// importer implements types.Importer.
type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
