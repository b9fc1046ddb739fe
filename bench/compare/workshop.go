package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/bench/trial"
)

// workshop is where the two trees are built and measured.
type workshop struct {
	*trial.T
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

func (w *workshop) sides() []*side { return []*side{&w.base, &w.head} }

// newWorkshop lays out the tree of the base beside this one.
func newWorkshop(t *trial.T, o options) *workshop {
	root := site.Root(t)
	cache := filepath.Join(root, ".cache")
	if o.benchstat == "" {
		o.benchstat = filepath.Join(cache, "bin", "benchstat")
	}
	if _, err := exec.LookPath(o.benchstat); err != nil {
		trial.Check(fmt.Errorf("%w: make bench-compare builds it", err))
	}
	o.benchstat = trial.Must(filepath.Abs(o.benchstat))
	commit := resolve(t, root, o.base)
	trial.Check(os.MkdirAll(cache, 0o755))
	dir := trial.Must(os.MkdirTemp(cache, "compare-"+commit[:12]+"-"))
	t.Cleanup(func() error { return os.RemoveAll(dir) })
	w := &workshop{
		T: t, options: o, dir: dir, bench: filepath.Join(dir, "bench"),
		base: side{name: "base", tree: filepath.Join(dir, "base")},
		head: side{name: "head", tree: root},
	}
	w.checkOut(commit)
	return w
}

// resolve returns the hash of the commit that a revision names.
func resolve(t *trial.T, root, revision string) (commit string) {
	t.Part("BASE="+revision+" names no commit of this repository (git log --oneline shows them)", 0, func(t *trial.T) {
		commit = process.Output(t, root, "git", "rev-parse", "--verify", "--end-of-options", revision+"^{commit}")
	})
	return commit
}

// checkOut writes the files of a commit, without a trace in the repository: neither
// its index nor its list of worktrees changes, however this ends.
func (w *workshop) checkOut(commit string) {
	trial.Check(os.Mkdir(w.base.tree, 0o755))
	process.Output(w.T, w.head.tree, "sh", "-c", `git archive --format=tar "$1" | tar -xf - -C "$2"`, "sh", commit, w.base.tree)
}

// build builds everything before anything is measured, as the compiler must not run
// beside it: docket as users get it, and the tests of the packages that a tree has.
func (w *workshop) build() {
	progress("building the programs of base and head")
	process.Output(w.T, filepath.Join(w.head.tree, "bench"), "env", "GOWORK=", "go", "build", "-buildvcs=false", "-o", w.bench, ".")
	for _, s := range w.sides() {
		bin := filepath.Join(w.dir, s.name+"-bin")
		trial.Check(os.Mkdir(bin, 0o755))
		s.docket = filepath.Join(bin, "docket")
		site.Build(w.T, s.tree, s.docket)
		for _, name := range fields(w.options.packages) {
			dir := filepath.Join(s.tree, name)
			if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
				progress("%s has no package %s: its benchmarks are not compared", s.name, name)
				continue
			}
			test := testBinary{name: name, path: filepath.Join(bin, strings.ReplaceAll(name, "/", "-")+".test"), dir: dir}
			process.Output(w.T, s.tree, "go", "test", "-c", "-o", test.path, "./"+name)
			s.tests = append(s.tests, test)
		}
	}
}

// measure fills the lines of both sides, pair after pair. Each pair begins with the
// other side, so that neither always comes first.
func (w *workshop) measure() {
	began := time.Now()
	for i := range w.options.count {
		for j := range 2 {
			s := w.sides()[(i+j)%2]
			progress("pair %d of %d: %s%s", i+1, w.options.count, s.name, process.TimeLeft(time.Since(began), 2*i+j, 2*w.options.count))
			w.Part(s.name, 0, func(t *trial.T) { w.once(t, s) })
		}
	}
}

// benchmarksWait bounds the benchmarks of one package, whatever hangs.
const benchmarksWait = 5 * time.Minute

// once measures everything once on one side.
func (w *workshop) once(t *trial.T, s *side) {
	if w.options.only != "" {
		results := filepath.Join(w.dir, "results.json")
		process.Output(t, w.head.tree, w.bench, "-docket", s.docket, "-only", w.options.only, "-rounds", "1", "-json", results)
		trial.Check(writeReport(&s.lines, trial.Must(os.ReadFile(results))))
	}
	for _, test := range s.tests {
		said := process.Output(t, test.dir, test.path, "-test.run=^$", "-test.count=1",
			"-test.bench="+w.options.bench, "-test.benchtime="+w.options.benchtime, "-test.timeout="+benchmarksWait.String())
		if writeBenchmarks(&s.lines, said) == 0 {
			progress("%s: no benchmark of %s matches -bench", s.name, test.name)
		}
	}
}

// timeNotRate leaves out MB/s, which says again what ns/op has said.
const timeNotRate = `-.unit:"MB/s"`

// benchstat returns its table, and what it says about each figure that both sides have.
func (w *workshop) benchstat() (table string, changes []change) {
	dir := w.dir
	if w.options.keep != "" {
		dir = w.options.keep
		trial.Check(os.MkdirAll(dir, 0o755))
	}
	args := []string{"-filter", timeNotRate}
	for _, s := range w.sides() {
		file := filepath.Join(dir, s.name+".txt")
		trial.Check(os.WriteFile(file, s.lines.Bytes(), 0o644))
		args = append(args, s.name+"="+file)
	}
	table = process.Output(w.T, "", w.options.benchstat, args...)
	values := process.Output(w.T, "", w.options.benchstat, append([]string{"-format", "csv"}, args...)...)
	return table, trial.Must(parseChanges(strings.NewReader(values)))
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
