package testinput_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A test that runs the go command on a package is cached until a file of that package, or
// of one that it imports, changes.
func TestChangesAreNoticed(t *testing.T) {
	dir := t.TempDir()
	here, err := filepath.Abs("testinput.go")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(here)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod":                 "module example.com/m\n\ngo 1.26.0\n",
		"testinput/testinput.go": string(source),
		"a/a.go":                 "package a\n\nimport _ \"example.com/m/b\"\n",
		"b/b.go":                 "package b\n",
		"test/a_test.go":         "package test\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m/testinput\"\n)\n\nfunc TestA(t *testing.T) { testinput.Packages(t, \"example.com/m/a\") }\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	cached := func() bool {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "./test")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Contains(string(out), "(cached)")
	}
	cached()
	if !cached() {
		t.Error("got a test that runs again, want its result from the cache")
	}
	write(t, filepath.Join(dir, "b/b.go"), "package b // changed\n")
	if cached() {
		t.Error("got a result from the cache after a change")
	}
}

// write makes a file that is older than what the cache takes for a moving target.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Minute)
	for _, path := range []string{name, filepath.Dir(name)} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
}
