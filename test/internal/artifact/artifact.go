// Package artifact makes what tests need from outside, once, and keeps it in the
// cache of the repository: downloaded jars, servers built from their source.
package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/repo"
)

// timeout leaves room for the build of a large server on a slow machine, behind the tests that run meanwhile.
const timeout = time.Hour

// quick are the flags of builds, for GOFLAGS: no data of debuggers, which stripped programs do
// not have, and no inlining. The compiler has less to do.
const quick = "'" + Inlined + " -l'"

// Inlined is an argument of go build for a program that benchmarks measure: it inlines
// functions as its release does.
const Inlined = "-gcflags=all=-dwarf=false"

// recipeName is the file of an artifact that says what it was made from.
const recipeName = "recipe"

// Artifact is one folder of the cache.
type Artifact struct {
	Name    string   // of the folder, with the version: "kafka-4.3.1"
	What    string   // for people: "the jars of Kafka 4.3.1"
	Runs    []string // programs that it is of no use without, with the package to install after a space
	Tools   []string // programs that Make needs, in the same form
	Recipe  []byte   // what it is made from: another recipe makes it anew
	Seconds int      // how long that took where it was tried

	// Make fills dir, which is empty. Its commands are ended with ctx.
	Make func(ctx context.Context, dir string) error
}

// Dir returns the folder, making it first unless it is there. It ends the test, by
// a skip or, where CI is true, a failure, when it cannot be had.
func (a Artifact) Dir(t testing.TB) string {
	t.Helper()
	if err := installed(a.Runs); err != nil {
		a.unavailable(t, err)
	}
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(root, ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(filepath.Join(cache, a.Name+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	dir := filepath.Join(cache, a.Name)
	if made, err := os.ReadFile(filepath.Join(dir, recipeName)); err == nil && bytes.Equal(made, a.Recipe) {
		return dir
	}
	if err := installed(a.Tools); err != nil {
		a.unavailable(t, err)
	}
	if err := a.make(t, dir); err != nil {
		a.unavailable(t, err)
	}
	return dir
}

// installed names a program that is missing, and its package.
func installed(programs []string) error {
	for _, p := range programs {
		program, pkg, _ := strings.Cut(p, " ")
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not installed: install the package %s", program, pkg)
		}
	}
	return nil
}

// Program returns the path of a program, which has the package to install after a space.
// It ends the test as Dir does when the program is not installed.
func Program(t testing.TB, program string) string {
	t.Helper()
	name, _, _ := strings.Cut(program, " ")
	if err := installed([]string{program}); err != nil {
		Artifact{What: name}.unavailable(t, err)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// unavailable ends the test because something it needs from outside cannot be
// had: a failure where everything is expected to be there, a skip elsewhere.
func (a Artifact) unavailable(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s cannot be had: %v", a.What, err)
	}
	t.Skipf("%s cannot be had: %v", a.What, err)
}

// make gathers the artifact in a folder beside dir, which takes the name dir when
// it is complete. What was left of an earlier attempt is gone then.
func (a Artifact) make(t testing.TB, dir string) error {
	t.Logf("making %s, once (it took %d s elsewhere), in %s", a.What, a.Seconds, dir)
	began := time.Now()
	unfinished := dir + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	defer sayEvery(15*time.Second, func() { t.Logf("still making %s after %.0f s", a.What, time.Since(began).Seconds()) })()
	if err := a.Make(ctx, unfinished); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(unfinished, recipeName), a.Recipe, 0o644); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return err
	}
	t.Logf("made %s in %.1f s", a.What, time.Since(began).Seconds())
	return nil
}

// GoProgram is a program of a Go module, which a module file requires.
type GoProgram struct {
	Name, Version string // "opa", "1.22.0"
	What          string // as of an Artifact, without the version
	Module        []byte // the module file
	Package       string
	LinkerFlags   string // beside those that strip the program
	Seconds       int    // as of an Artifact
}

// Path returns the path of the program, building it first unless it is there. It ends the
// test as Dir does when it cannot be had.
func (p GoProgram) Path(t testing.TB) string {
	t.Helper()
	dir := Artifact{
		Name:    p.Name + "-" + p.Version,
		What:    p.What + " " + p.Version,
		Recipe:  p.Module,
		Seconds: p.Seconds,
		Make: func(ctx context.Context, dir string) error {
			if err := os.WriteFile(filepath.Join(dir, "go.mod"), p.Module, 0o644); err != nil {
				return err
			}
			return Run(ctx, dir, "go", "build", "-mod=mod", "-buildvcs=false", "-trimpath", "-ldflags=-s -w "+p.LinkerFlags, "-o", p.Name, p.Package)
		},
	}.Dir(t)
	return filepath.Join(dir, p.Name)
}

// Run runs a command of Make in dir. Its error has what the command said.
func Run(ctx context.Context, dir string, name string, args ...string) error {
	_, err := Output(ctx, dir, name, args...)
	return err
}

// Output is Run for a command whose standard output is wanted.
func Output(ctx context.Context, dir string, name string, args ...string) (stdout string, err error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	// A flag of the repository's own build must not get into another's. GOGC has the compiler
	// take memory for processors.
	cmd.Env = append(os.Environ(), "GOFLAGS="+quick, "GOGC=400", "GOWORK=off", "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = &out, &said
	if err = cmd.Run(); err == nil {
		return out.String(), nil
	}
	const most = 4 << 10
	text := append(out.Bytes(), said.Bytes()...)
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return "", fmt.Errorf("%s: %w\n%s", cmd, err, bytes.TrimSpace(text))
}

// sayEvery calls say again and again until the function it returns is called,
// which waits for the last call.
func sayEvery(interval time.Duration, say func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				say()
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// lock waits for the lock file at path, which keeps the test programs of several
// packages from making the same side by side.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
