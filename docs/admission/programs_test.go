//go:build unix

package admission

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/docket-export/docket/internal/testinput"
)

// The program with the library compiles in a module of its own, as does that with
// controller-runtime in test/webhook, which has that library.
func TestProgram(t *testing.T) {
	testinput.Packages(t, "../../decision/...")
	for _, b := range allBlocks(t) {
		if formatted, err := format.Source([]byte(b.text)); b.language == "go" && (err != nil || string(formatted) != b.text) {
			t.Errorf("%s: %v, or not as gofmt has it:\n%s", b.heading, err, b.text)
		}
	}
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	// The workspace of docket has paths that begin with a dot.
	ours := regexp.MustCompile(`(?m)([\t ])\.(/\S*)?$`).ReplaceAllString(string(work), "${1}"+root+"${2}")
	for name, text := range map[string]string{
		"main.go": blocks(t, "In an engine of your own", "go", 2)[0],
		"go.mod":  "module example.com/engine\n\ngo 1.26.0\n",
		"go.work": ours + "\nuse " + dir + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vet := exec.Command("go", "vet", ".")
	vet.Dir = dir
	vet.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"))
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}
