package directory

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// place is where an object was found: "Kind name line".
func place(o Object) string { return fmt.Sprintf("%s %s %d", o.GetKind(), o.GetName(), o.Line) }

func places(objects []Object) (found []string) {
	for _, o := range objects {
		found = append(found, place(o))
	}
	return found
}

func TestParse(t *testing.T) {
	const pod, role = "{apiVersion: v1, kind: Pod, metadata: {name: p}}", "apiVersion: v1\nkind: Role\nmetadata: {name: r}\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":           {"", nil},
		"comments":          {"# one\n---\n# two\n---\nnull\n", nil},
		"one":               {"\n\n" + role, []string{"Role r 3"}},
		"two":               {"--- # first\n" + role + "---\n\n" + pod + "\n", []string{"Role r 1", "Pod p 7"}},
		"behind the dashes": {role + "--- " + pod + "\n", []string{"Role r 1", "Pod p 4"}},
		"an end":            {role + "...\n" + role + "...\n", []string{"Role r 1", "Role r 5"}},
		"Windows":           {strings.ReplaceAll(role+"---\n"+role, "\n", "\r\n"), []string{"Role r 1", "Role r 5"}},
		"dashes in a text":  {"apiVersion: v1\nkind: Role\nmetadata:\n  name: r\n  a: |\n    x\n    ---\n    y\n", []string{"Role r 1"}},
		"a name to come":    {"apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: j-}\n", []string{"Job  1"}},
		"list":              {"apiVersion: v1\nkind: List\nitems:\n- " + pod + "\n- " + pod + "\n", []string{"Pod p 1", "Pod p 1"}},
		"JSON":              {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p\/q"}}`, []string{"Pod p/q 1"}},
		"JSON with tabs":    {"{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\",\n\t\"metadata\": {\"name\": \"p\"}\n}\n", []string{"Pod p 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects, problem := parse("f.yaml", []byte(c.text))
			if got := places(objects); !slices.Equal(got, c.want) || problem != nil {
				t.Errorf("got %q and the problem %v, want %q", got, problem, c.want)
			}
		})
	}
}

func TestParseMistakes(t *testing.T) {
	const role = "apiVersion: v1\nkind: Role\nmetadata: {name: r}\n"
	for text, want := range map[string]string{
		role + "---\na: 1\n b: 2\n":                      "f.yaml:6: mapping values are not allowed in this context",
		role + "---\napiVersion: v1\nkind: A\nkind: B\n": `f.yaml:7: key "kind" already set in map`,
		role + "---\n\na: {b: 1}\n":                      "f.yaml:6: no object of Kubernetes: it has no kind",
		"just text\n":                                    "f.yaml:1: ",
		"[1, 2]\n":                                       "f.yaml:1: ",
		"apiVersion: v1\nkind: Role\n":                   "f.yaml:1: Role  has no apiVersion, kind or metadata.name",
		"kind: Role\nmetadata: {name: r}\n":              "f.yaml:1: Role r has no apiVersion, kind or metadata.name",
		"apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {generateName: t-}\n": "f.yaml:1: ConstraintTemplate  has no apiVersion, kind or metadata.name",
		"{\"apiVersion\": \"v1\",\n\"kind\": ]\n":                                                          "f.yaml:1: did not find",
		"{\"apiVersion\": \"v1\"}\n":                                                                       "f.yaml:1: no object of Kubernetes: it has no kind",
		"kind: Role\nmetadata: 7\n":                                                                        "f.yaml:1: ",
		"apiVersion: v1\nkind: List\nitems: [7]\n":                                                         "f.yaml:1: ",
	} {
		objects, problem := parse("f.yaml", []byte(text))
		if problem == nil || !strings.HasPrefix(problem.String(), want) || objects != nil {
			t.Errorf("%q:\ngot %q and the problem %v,\nwant the problem %s", text, places(objects), problem, want)
		}
	}
}

// Whatever is in a file, there is an answer, and every line it names is one of the file.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"a: 1\n---\n...", "{}{}", "---{", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}", "\t\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := 1 + strings.Count(text, "\n")
		objects, problem := parse("f", []byte(text))
		for _, o := range objects {
			if o.Line < 1 || o.Line > lines || o.GetName() == "" && o.GetGenerateName() == "" {
				t.Errorf("got %s of %d lines", place(o), lines)
			}
		}
		if problem != nil && (problem.Line < 1 || problem.Line > lines || problem.Message == "") {
			t.Errorf("got the problem %q of %d lines", problem, lines)
		}
	})
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	pipe, large, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "large"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, make([]byte, maxFileBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(large, link); err != nil {
		t.Fatal(err)
	}
	if text, err := readFile(link); len(text) != maxFileBytes || err != nil {
		t.Errorf("got %d bytes and %v, want %d", len(text), err, maxFileBytes)
	}
	if err := os.Truncate(large, maxFileBytes+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{large: "larger than 4 MiB: split it", pipe: "not a regular file"} {
		if _, err := readFile(path); err == nil || err.Error() != want {
			t.Errorf("%s: got the error %v, want %s", path, err, want)
		}
	}
}
