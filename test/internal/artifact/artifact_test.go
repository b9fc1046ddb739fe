package artifact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// inRepository makes an empty repository the working directory, and returns the
// folder of its cache.
func inRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module github.com/docket-export/docket\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	return filepath.Join(dir, ".cache")
}

// jar is an artifact of one file with that text, which counts in made how often it
// is made.
func jar(text string, made *int) Artifact {
	return Artifact{Name: "jar-1", What: "the jar", Recipe: []byte(text), Make: func(_ context.Context, dir string) error {
		*made++
		return os.WriteFile(filepath.Join(dir, "jar"), []byte(text), 0o644)
	}}
}

func TestMadeOnce(t *testing.T) {
	cache := inRepository(t)
	made := 0
	for _, step := range []struct {
		recipe string
		want   int // how often it has been made after it
	}{{"one", 1}, {"one", 1}, {"two", 2}, {"two", 2}, {"one", 3}} {
		dir := jar(step.recipe, &made).Dir(t)
		text, err := os.ReadFile(filepath.Join(dir, "jar"))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != step.recipe || made != step.want || filepath.Dir(dir) != cache {
			t.Errorf("recipe %s: got %q in %s, made %d times; want it in %s, made %d times", step.recipe, text, dir, made, cache, step.want)
		}
	}
}

// Test programs of several packages want the same at the same time: one makes it,
// the others wait.
func TestMadeOnceForAll(t *testing.T) {
	cache := inRepository(t)
	made := 0 // guarded by the lock of the artifact
	a := jar("one", &made)
	whole := a.Make
	a.Make = func(ctx context.Context, dir string) error {
		f, err := os.Open(filepath.Join(cache, "jar-1.lock"))
		if err != nil {
			return err
		}
		defer f.Close()
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			t.Errorf("take the lock while the artifact is made: got %v, want %v", err, syscall.EWOULDBLOCK)
		}
		return whole(ctx, dir)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { a.Dir(t) })
	}
	wg.Wait()
	if made != 1 {
		t.Errorf("it was made %d times, want once", made)
	}
}

// What was made halfway is not taken for made, and does not stay in the way.
func TestMadeHalfway(t *testing.T) {
	t.Setenv("CI", "false")
	cache := inRepository(t)
	made := 0
	a := jar("one", &made)
	whole := a.Make
	a.Make = func(ctx context.Context, dir string) error {
		return errors.Join(whole(ctx, dir), errors.New("no network"))
	}
	if end := endOf(t, func(t testing.TB) { a.Dir(t) }); end != "skipped: the jar cannot be had: no network" {
		t.Errorf("the test %s, want it skipped, and why", end)
	}
	if err := os.WriteFile(filepath.Join(cache, "jar-1.unfinished", "rest"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a.Make = whole
	dir := a.Dir(t)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if made != 2 || len(files) != 2 {
		t.Errorf("made %d times, and there are %v; want twice, the jar and the recipe", made, files)
	}
}

func TestUnavailable(t *testing.T) {
	inRepository(t)
	made := 0
	programs := []string{"sh", "docket-no-such-program docket-no-such-package"}
	missing := jar("one", &made)
	missing.Tools = programs
	useless := jar("two", new(int))
	useless.Dir(t)
	useless.Runs = programs
	failing := jar("one", &made)
	failing.Make = func(ctx context.Context, dir string) error {
		return Run(ctx, dir, "sh", "-c", "echo words >&2; exit 3")
	}
	for name, test := range map[string]struct {
		artifact Artifact
		ci       string
		want     []string
	}{
		"tool":       {missing, "", []string{"skipped: the jar cannot be had: docket-no-such-program is not installed: install the package docket-no-such-package"}},
		"tool in CI": {missing, "true", []string{"failed: the jar cannot be had: docket-no-such-program"}},
		"made":       {useless, "", []string{"skipped: the jar cannot be had: docket-no-such-program"}},
		"make":       {failing, "false", []string{"skipped: the jar cannot be had: ", "exit status 3", "words"}},
		"make in CI": {failing, "true", []string{"failed: the jar cannot be had: ", "exit status 3", "words"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", test.ci)
			end := endOf(t, func(t testing.TB) { test.artifact.Dir(t) })
			for _, want := range test.want {
				if !strings.Contains(end, want) {
					t.Errorf("the test %s, want %q in that", end, want)
				}
			}
		})
	}
	if made != 0 {
		t.Error("it was made without a tool that it needs")
	}
}

// ending is a test that says how it was ended.
type ending struct {
	testing.TB
	end string
}

func (e *ending) Fatalf(format string, args ...any) {
	e.ends("failed: " + fmt.Sprintf(format, args...))
}
func (e *ending) Skipf(format string, args ...any) {
	e.ends("skipped: " + fmt.Sprintf(format, args...))
}

func (e *ending) ends(how string) {
	e.end = how
	panic(e)
}

// endOf says how a test ends that does this.
func endOf(t *testing.T, do func(testing.TB)) (end string) {
	t.Helper()
	e := &ending{TB: t, end: "went on"}
	defer func() {
		if p := recover(); p != nil && p != any(e) {
			panic(p)
		}
		end = e.end
	}()
	do(e)
	return e.end
}

func TestProgram(t *testing.T) {
	if path := Program(t, "sh dash"); !filepath.IsAbs(path) || filepath.Base(path) != "sh" {
		t.Errorf("got %q, want the path of sh", path)
	}
	for ci, want := range map[string]string{"": "skipped", "true": "failed"} {
		t.Setenv("CI", ci)
		want += ": docket-no-such-program cannot be had: docket-no-such-program is not installed: install the package some-package"
		if got := endOf(t, func(t testing.TB) { Program(t, "docket-no-such-program some-package") }); got != want {
			t.Errorf("the test %s, want it %s", got, want)
		}
	}
}
