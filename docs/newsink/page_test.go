// Package newsink tests the program on the page docs/new-sink.md.
package newsink

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/testinput"
)

// program is the module of the page, as a stranger would have it.
type program struct{ dir string }

// The page has a whole program: outside of docket's module, its sink passes the suite of every sink.
func TestPage(t *testing.T) {
	testinput.Packages(t, "../../cli/...", "../../sinks/...")
	p := program{dir: t.TempDir()}
	p.write(t)
	test := exec.CommandContext(t.Context(), "go", "test", "./...")
	test.Dir = p.dir
	test.Env = append(os.Environ(), "GOWORK="+filepath.Join(p.dir, "go.work"))
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// blocks are the packages on the page, by their names.
func blocks(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../new-sink.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```go\n(.*?)```\n").FindAllStringSubmatch(string(page), -1) {
		first, _, _ := strings.Cut(m[1], "\n")
		name, ok := strings.CutPrefix(first, "package ")
		if formatted, err := format.Source([]byte(m[1])); !ok || err != nil || string(formatted) != m[1] {
			t.Errorf("got the block\n%s\n%v, want a formatted file that begins with its package", m[1], err)
		}
		found[name] = m[1]
	}
	if len(found) != 2 || found["main"] == "" || found["spool"] == "" {
		t.Fatalf("got %d packages, want main and spool", len(found))
	}
	return found
}

// write makes the module, beside docket's own modules in a workspace.
func (p program) write(t *testing.T) {
	t.Helper()
	all := blocks(t)
	p.file(t, "main.go", all["main"])
	p.file(t, "spool/spool.go", all["spool"])
	test, err := os.ReadFile("testdata/spool_test.go")
	if err != nil {
		t.Fatal(err)
	}
	p.file(t, "spool/spool_test.go", string(test))
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	p.file(t, "go.mod", "module example.com/docket-spool\n\ngo 1.26.0\n")
	// The workspace of docket has paths that begin with a dot.
	ours := regexp.MustCompile(`(?m)([\t ])\.(/\S*)?$`).ReplaceAllString(string(work), "${1}"+root+"${2}")
	p.file(t, "go.work", ours+"\nuse "+p.dir+"\n")
}

func (p program) file(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
