package disk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// traced are the verbs of the package comment, each in a directory of its own. prepare is
// not traced.
var traced = map[string]struct{ prepare, do func(t *testing.T, root Path) }{
	"MakeDir": {do: func(t *testing.T, root Path) { must(t, root.Join("made").MakeDir()) }},
	"Create":  {do: func(t *testing.T, root Path) { closed(t)(root.Join("file").Create()) }},
	"Replace": {
		prepare: func(t *testing.T, root Path) { closed(t)(root.Join("file.new").Create()) },
		do:      func(t *testing.T, root Path) { must(t, root.Join("file").Replace([]byte("x"))) },
	},
	"WriteNew": {do: func(t *testing.T, root Path) {
		must(t, root.Join("file").WriteNew([]byte("x")))
	}},
	"Append": {
		prepare: func(t *testing.T, root Path) { closed(t)(root.Join("file").Create()) },
		do: func(t *testing.T, root Path) {
			f, err := root.Join("file").OpenWrite()
			must(t, err)
			must(t, (&Log{File: f}).Append([]byte("x")))
			must(t, f.Close())
		},
	},
	"Lock": {do: func(t *testing.T, root Path) {
		l, err := root.Join("file").Lock()
		must(t, err)
		must(t, l.Close())
	}},
	"Share": {
		prepare: func(t *testing.T, root Path) { closed(t)(root.Join("file").Create()) },
		do: func(t *testing.T, root Path) {
			s, err := root.Join("file").Share()
			must(t, err)
			must(t, s.Close())
		},
	},
}

func closed(t *testing.T) func(File, error) {
	return func(f File, err error) {
		t.Helper()
		must(t, err)
		must(t, f.Close())
	}
}

// tracedEnv names the directory in which a traced process does what traced says.
const tracedEnv = "DOCKET_TEST_TRACED"

// Each verb makes the system calls that the package comment lists, in that order.
func TestSystemCalls(t *testing.T) {
	if dir := os.Getenv(tracedEnv); dir != "" {
		for name, verb := range traced {
			verb.do(t, At(filepath.Join(dir, name, "dir")))
		}
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("strace is missing: install it")
		}
		t.Skip("strace is missing: the system calls are not compared with the package comment")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for name, verb := range traced {
		root := At(filepath.Join(dir, name, "dir"))
		must(t, root.MakeDir())
		if verb.prepare != nil {
			verb.prepare(t, root)
		}
	}
	out := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command(strace, "-f", "-y", "-o", out,
		"-e", "trace=openat,mkdirat,fchmod,write,pwrite64,ftruncate,fsync,fdatasync,renameat,renameat2,unlinkat,flock",
		os.Args[0], "-test.run=^TestSystemCalls$")
	cmd.Env = append(os.Environ(), tracedEnv+"="+dir)
	if text, err := cmd.CombinedOutput(); err != nil {
		if os.Getenv("CI") != "true" && strings.Contains(string(text), "PTRACE") {
			t.Skipf("this process may not trace another: the system calls are not compared with the package comment: %s", text)
		}
		t.Fatalf("%v\n%s", err, text)
	}
	trace, err := os.ReadFile(out)
	must(t, err)
	source, err := os.ReadFile("disk.go")
	must(t, err)
	got := callsOf(string(trace), dir)
	for name := range traced {
		m := regexp.MustCompile(`(?m)^//\t` + name + ` +(\S.*)$`).FindSubmatch(source)
		if m == nil {
			t.Errorf("%s: the package comment does not list it", name)
			continue
		}
		if want := string(m[1]); strings.Join(got[name], " ") != want {
			t.Errorf("%s:\n got  %s\n want %s", name, strings.Join(got[name], " "), want)
		}
	}
}

// calls are those of strace that name a path in quotes, after the directory that a
// descriptor stands for, or a descriptor alone.
var call = regexp.MustCompile(`^\d+ +(\w+)\((?:\w+)<([^>]*)>(?:, "([^"]*)")?(?:, (.*))?`)

// callsOf returns the calls of a trace that change or sync something, by verb.
func callsOf(trace, dir string) map[string][]string {
	calls := map[string][]string{}
	for line := range strings.Lines(trace) {
		m := call.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		path := m[2]
		if strings.HasSuffix(m[1], "at") {
			path = filepath.Join(path, m[3])
		}
		below, err := filepath.Rel(dir, path)
		if err != nil || !filepath.IsLocal(below) || m[1] == "openat" && !strings.Contains(m[4], "O_CREAT") && !strings.HasSuffix(below, ".new") {
			continue
		}
		verb, name, _ := strings.Cut(below, "/")
		if name = strings.TrimPrefix(name, "dir/"); name == "" {
			name = "dir/.."
		}
		calls[verb] = append(calls[verb], fmt.Sprintf("%s(%s)", m[1], name))
	}
	return calls
}
