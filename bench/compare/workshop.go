package main

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
	"time"

	"github.com/docket-export/docket/bench/site"
)

// workshop is where the two trees are built and measured.
type workshop struct {
	options options
	dir     string // below .cache of this tree; everything that is made is in it
	bench   string // the program that measures docket
	base    side
	head    side
}

// side is one of the two trees.
type side struct {
	name   string // base or head
	tree   string
	docket string
	tests  []testBinary
	lines  bytes.Buffer // what benchstat gets to read
}

// testBinary holds the Go benchmarks of one package.
type testBinary struct {
	name string // of the package, below the root
	path string
	dir  string // of the package: where its tests expect to be
}

// newWorkshop lays out the tree of the base beside this one.
func newWorkshop(ctx context.Context, o options) (*workshop, error) {
	root, err := site.Root(ctx)
	if err != nil {
		return nil, err
	}
	commit, err := resolve(ctx, root, o.base)
	if err != nil {
		return nil, err
	}
	if o.benchstat == "" {
		o.benchstat = filepath.Join(root, ".cache", "bin", "benchstat")
	}
	if o.benchstat, err = exec.LookPath(o.benchstat); err != nil {
		return nil, fmt.Errorf("%w: make bench-compare builds it", err)
	}
	cache := filepath.Join(root, ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(cache, "compare-"+commit[:12]+"-")
	if err != nil {
		return nil, err
	}
	w := &workshop{
		options: o,
		dir:     dir,
		bench:   filepath.Join(dir, "bench"),
		base:    side{name: "base", tree: filepath.Join(dir, "base")},
		head:    side{name: "head", tree: root},
	}
	if err := w.checkOut(ctx, commit); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// close removes everything that was made.
func (w *workshop) close() {
	if err := os.RemoveAll(w.dir); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
	}
}

// resolve returns the hash of the commit that a revision names.
func resolve(ctx context.Context, root, revision string) (string, error) {
	commit, err := output(ctx, root, "git", "rev-parse", "--verify", "--end-of-options", revision+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("BASE=%s names no commit of this repository (git log --oneline shows them): %w", revision, err)
	}
	return commit, nil
}

// checkOut writes the files of a commit, without a trace in the repository: neither
// its index nor its list of worktrees changes, however this ends.
func (w *workshop) checkOut(ctx context.Context, commit string) error {
	archive := filepath.Join(w.dir, "base.tar")
	if _, err := output(ctx, w.head.tree, "git", "archive", "--format=tar", "--output="+archive, commit); err != nil {
		return err
	}
	if err := os.Mkdir(w.base.tree, 0o755); err != nil {
		return err
	}
	if _, err := output(ctx, w.base.tree, "tar", "-xf", archive); err != nil {
		return err
	}
	return os.Remove(archive)
}

// build builds everything before anything is measured: the compiler must not run
// beside it.
func (w *workshop) build(ctx context.Context) error {
	progress("building the programs of base and head")
	if _, err := output(ctx, filepath.Join(w.head.tree, "bench"), "go", "build", "-buildvcs=false", "-o", w.bench, "."); err != nil {
		return err
	}
	for _, s := range []*side{&w.base, &w.head} {
		if err := w.buildSide(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// buildSide builds docket as users get it, and the tests of the packages that
// this tree has.
func (w *workshop) buildSide(ctx context.Context, s *side) error {
	bin := filepath.Join(w.dir, s.name+"-bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	s.docket = filepath.Join(bin, "docket")
	if err := site.Build(ctx, s.tree, s.docket); err != nil {
		return err
	}
	for _, name := range fields(w.options.packages) {
		dir := filepath.Join(s.tree, name)
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			progress("%s has no package %s: its benchmarks are not compared", s.name, name)
			continue
		}
		test := testBinary{name: name, path: filepath.Join(bin, strings.ReplaceAll(name, "/", "-")+".test"), dir: dir}
		if _, err := output(ctx, s.tree, "go", "test", "-c", "-o", test.path, "./"+name); err != nil {
			return err
		}
		s.tests = append(s.tests, test)
	}
	return nil
}

// patience is for a program that is asked to end and has to end others first.
const patience = 15 * time.Second

// output runs a program in a directory and returns what it prints, without the
// space around. When ctx is done the program is asked to end.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, site.Env(dir), &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	if err := cmd.Run(); err != nil {
		said := bytes.TrimSpace(stderr.Bytes())
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, said)
	}
	return strings.TrimSpace(stdout.String()), nil
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
