package importtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A program with a sink of its own is in another module, which cannot import what is below
// internal. So no exported declaration of the packages that it needs names such a type.
func TestStrangersCanNameEveryType(t *testing.T) {
	for _, dir := range []string{"cli", "cli/builtin", "config", "sinks", "sinks/sinktest", "sources", "sources/sourcetest"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: got the files %q, %v", dir, files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, found := range internalTypes(t, file) {
				t.Errorf("%s: %s", dir, found)
			}
		}
	}
}

// internalTypes returns where exported declarations in file name types from below internal.
// An alias is a name for one that everybody can use.
func internalTypes(t *testing.T, file string) (found []string) {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	internal := map[string]bool{}
	for _, i := range parsed.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err == nil && ours(path) && strings.Contains(path, "/internal/") {
			internal[filepath.Base(path)] = true
		}
	}
	look := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && len(f.Names) > 0 && !f.Names[0].IsExported() {
				_, isFunc := f.Type.(*ast.FuncType)
				return isFunc
			}
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && internal[x.Name] {
					found = append(found, fset.Position(s.Pos()).String()+": "+x.Name+"."+s.Sel.Name)
				}
			}
			return true
		})
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				for _, list := range []*ast.FieldList{d.Type.Params, d.Type.Results} {
					if list != nil {
						for _, f := range list.List {
							look(f.Type)
						}
					}
				}
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() && !s.Assign.IsValid() {
					look(s.Type)
				}
			}
		}
	}
	return found
}
