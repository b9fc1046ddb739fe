package importtest

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/testinput"
)

// version is the one that the go.mod files of our modules require of each other.
const version = "v0.1.0"

// released are the modules that a tag publishes, by their directories.
var released = map[string]string{
	module: ".", module + "/decision": "decision", module + "/client": "client",
	module + "/webhook": "webhook",
}

// engines are the packages that an engine imports, by the module that it gets.
var engines = map[string][]string{"client": {"client", "decision"}, "webhook": {"client", "decision", "webhook"}}

// An engine that imports the client, or an admission webhook that imports webhook, gets
// docket's own lines in its go.mod, and no other: the proxy has nothing else.
func TestEngineGetsNoOtherRequirement(t *testing.T) {
	t.Parallel()
	for name, imports := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newStranger(t, name, imports)
		})
	}
}

// newStranger is an engine that imports some of our packages and has run go get for one of
// our modules.
func newStranger(t *testing.T, name string, imports []string) foreign {
	t.Helper()
	var lines, requires string
	for _, i := range imports {
		lines += "\t_ \"" + module + "/" + i + "\"\n"
		requires += "\t" + module + "/" + i + " " + version + "\n"
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module engine.test\n\ngo 1.26.0\n")
	write(t, filepath.Join(dir, "imports.go"), "package main\n\nimport (\n"+lines+")\n")
	write(t, filepath.Join(dir, "main.go"), `package main

import (
	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

func main() {
	c, err := client.New(client.Config{})
	println(c.Enabled(), err == nil, c.TryLog(&decision.Record{Decision: decision.Deny}) == nil)
}
`)
	stranger := foreign{dir: dir, proxy: "file://" + proxy(t), cache: t.TempDir()}
	stranger.run(t, "go", "get", module+"/"+name+"@"+version)
	stranger.run(t, "go", "mod", "tidy")
	got, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	want := "module engine.test\n\ngo 1.26.0\n\nrequire (\n" + requires + ")\n"
	if string(got) != want {
		t.Errorf("go.mod: got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(stranger.run(t, "go", "mod", "graph")) {
		for name := range strings.FieldsSeq(line) {
			path, _, _ := strings.Cut(name, "@")
			if !ours(path) && !slices.Contains([]string{"engine.test", "go", "toolchain"}, path) {
				t.Errorf("go mod graph: %s", line)
			}
		}
	}
	return stranger
}

// foreign runs the go command as on a machine that has nothing of this repository.
type foreign struct{ dir, proxy, cache string }

func (f foreign) run(t *testing.T, name string, args ...string) (stdout string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "GOBIN="+f.dir, "GOFLAGS="+os.Getenv("GOFLAGS")+" -modcacherw", "GOMODCACHE="+f.cache, "GONOSUMDB=*", "GOPROXY="+f.proxy, "GOSUMDB=off", "GOWORK=off")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, said.Bytes())
	}
	if out.Len() == 0 {
		return said.String() // of println
	}
	return out.String()
}

// proxy serves the released modules as this tree has them: a directory in the form of
// the module proxy protocol.
func proxy(t *testing.T) (dir string) {
	t.Helper()
	testinput.Packages(t, module+"/cmd/docket", module+"/client/...", module+"/webhook/...")
	dir = t.TempDir()
	root := filepath.Join("..", "..")
	for path, sub := range released {
		at := filepath.Join(dir, filepath.FromSlash(path), "@v")
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		mod, err := os.ReadFile(filepath.Join(root, sub, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(at, "list"), version+"\n")
		write(t, filepath.Join(at, version+".info"), `{"Version":"`+version+`"}`)
		write(t, filepath.Join(at, version+".mod"), string(mod))
		write(t, filepath.Join(at, version+".zip"), zipped(t, filepath.Join(root, sub), path+"@"+version))
	}
	return dir
}

// zipped is the module in dir, without those below it and without what is not in git.
func zipped(t *testing.T, dir, prefix string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if path != dir && (err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		w, err := z.Create(prefix + "/" + filepath.ToSlash(rel))
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
