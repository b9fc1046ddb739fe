package patch_test

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/test/internal/patch"
)

const (
	original = "package p\n\nvar a = 1\nvar b = 2\nvar c = 3\nvar d = 4\n"
	diffs    = `--- a/p/p.go
+++ b/p/p.go
@@ -1,3 +1,4 @@
 package p

+var z = 0
 var a = 1
@@ -5,2 +6,2 @@ var c
-var c = 3
+var c = 30
 var d = 4
--- /dev/null
+++ b/p/new.go
@@ -0,0 +1,2 @@
+package p
+var e = 5
`
)

func TestApply(t *testing.T) {
	files, err := patch.Parse(diffs)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 || files[0].Name != "p/p.go" || files[0].New() || files[1].Name != "p/new.go" || !files[1].New() {
		t.Fatalf("got the files %+v, want p/p.go and a new p/new.go", files)
	}
	for i, step := range []struct{ original, want string }{
		{original, "package p\n\nvar z = 0\nvar a = 1\nvar b = 2\nvar c = 30\nvar d = 4\n"},
		{"", "package p\nvar e = 5\n"},
	} {
		if got, err := files[i].Apply(step.original); err != nil || got != step.want {
			t.Errorf("%s: got %q, %v, want %q", files[i].Name, got, err, step.want)
		}
	}
	if got := strings.Join(files[0].Added(), "; "); got != "var z = 0; var c = 30" {
		t.Errorf("got the added lines %q", got)
	}
}

// A source that has moved on is told by its first line that is another.
func TestApplyToAnother(t *testing.T) {
	files, err := patch.Parse(diffs)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ original, want string }{
		"moved":   {"// Package p is one.\n" + original, `line 1 of p/p.go is not the one of the diff: got "// Package p is one.", want "package p"`},
		"changed": {strings.Replace(original, "c = 3", "c = 4", 1), `line 5 of p/p.go is not the one of the diff: got "var c = 4", want "var c = 3"`},
		"shorter": {strings.TrimSuffix(original, "var c = 3\nvar d = 4\n"), `line 5 of p/p.go is not the one of the diff: got "", want "var c = 3"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := files[0].Apply(test.original); err == nil || err.Error() != test.want {
				t.Errorf("got %q, %v, want the error %s", got, err, test.want)
			}
		})
	}
}

func TestParseReports(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "there is no diff",
		"@@ -1,1 +1,1 @@\n a\n":           `no line of a diff: "@@ -1,1 +1,1 @@"`,
		"+++ b/p.go\n a\n":                `no line of a diff: " a"`,
		"+++ b/p.go\n@@ -1 +1 @@\n*a\n":   `no line of a diff: "*a"`,
		"+++ b/p.go\n@@ -1 +1 @@\ndiff\n": `no line of a diff: "diff"`,
	} {
		if _, err := patch.Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
