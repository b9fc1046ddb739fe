package webhook

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// The program with controller-runtime on the page docs/admission.md compiles in a module
// of its own.
func TestPageWithControllerRuntime(t *testing.T) {
	page, err := os.ReadFile("../../docs/admission.md")
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)With controller-runtime,[^`]*(?:`[^`]+`[^`]+)*```go\n(.*?)```\n").FindSubmatch(page)
	if program == nil {
		t.Fatal("the page has no program with controller-runtime")
	}
	here, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	work, err := os.ReadFile("../go.work")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("../go.work.sum")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	work = regexp.MustCompile(`(?m)(=> |^\t)\.\.`).ReplaceAll(work, []byte("${1}"+filepath.Dir(here)))
	work = regexp.MustCompile(`(?m)^\t\.$`).ReplaceAll(work, []byte("\t"+here))
	for name, text := range map[string]string{
		"main.go":     string(program[1]),
		"go.mod":      "module example.com/engine\n\ngo 1.26.0\n",
		"go.work":     string(work) + "\nuse " + dir + "\n",
		"go.work.sum": string(sums),
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
