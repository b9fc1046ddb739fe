// Package testinput tells the cache of go test which sources a test reads.
package testinput

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Packages makes the result of t depend on the directories of the packages that the
// patterns name, with everything below this module that they import. A go command that
// the test runs reads them unseen, and a cached result would outlive a change of them.
func Packages(t testing.TB, patterns ...string) {
	t.Helper()
	const ours = "{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}"
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", ours}, patterns...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", patterns, err)
	}
	for dir := range strings.FieldsSeq(string(out)) {
		if _, err := os.ReadDir(dir); err != nil { // which the cache notes, with sizes and times of the files
			t.Fatal(err)
		}
	}
}
