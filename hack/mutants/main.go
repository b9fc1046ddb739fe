// Mutants plants one defect after another in a copy of the source, and wants to
// see the test fail that is there to catch it. A defect that no test notices
// survives, and is an error: a promise is not tested.
//
//	go run ./hack/mutants [-run REGEXP] [-shard I/N] [-rotate N [-date DAY]] [-v]
//
// The defects are in table.go, trust.go, sources.go, disk.go, webhook.go, admission.go, serving.go, tap.go, online.go, config.go, waits.go, reload.go, query.go, kafka.go, engine.go and reach.go. Nothing in the tree is changed: the Go
// command reads the one file that differs from elsewhere (-overlay).
//
// A time-out catches nothing, because a slow machine times out as well. It counts
// only for a row marked hangs, and only if the same tests pass without the defect
// right afterwards.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// patience is longer than a test waits for something before it fails by itself.
// longPatience is for a second try after a time-out.
const (
	patience     = 4 * time.Minute
	longPatience = 3 * patience
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	missed, err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if missed > 0 {
		os.Exit(1)
	}
}

// run tries the mutants that were asked for and returns how many were not caught.
func run(ctx context.Context) (missed int, err error) {
	var pick selection
	pick.flags(flag.CommandLine)
	verbose := flag.Bool("v", false, "show what the tests say")
	flag.Parse()
	chosen, err := choose(pick)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w := workshop{ctx: ctx, dir: dir, verbose: *verbose}
	if err := w.checkSound(chosen); err != nil {
		return 0, err
	}
	if pick.rotate > 0 {
		fmt.Printf("the %d of %d defects for -date %s\n", len(chosen), len(table), pick.date)
	}
	const row = "%-64s  %-28s  %-9s  %6s  %s\n"
	fmt.Printf(row, "DEFECT", "FILE", "RESULT", "TIME", "CAUGHT BY")
	began := time.Now()
	for _, m := range chosen {
		start := time.Now()
		r, err := w.try(m)
		if err = errors.Join(ctx.Err(), err); ctx.Err() != nil {
			return missed, fmt.Errorf("%s: %w", m.defect, err)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "mutants: %s: %v\n", m.defect, err)
			r.verdict = broken
		}
		if r.verdict != caught {
			missed++
		}
		fmt.Printf(row, m.defect, m.file, r.verdict, time.Since(start).Round(100*time.Millisecond), r.catcher())
	}
	fmt.Printf("%d of %d defects caught in %s\n", len(chosen)-missed, len(chosen), time.Since(began).Round(time.Second))
	return missed, nil
}

// choose returns the mutants that pick names, once it is certain that each can be
// planted: a table that has fallen behind the code must not pass.
func choose(pick selection) (chosen []mutant, err error) {
	chosen, err = pick.of(table)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, m := range chosen {
		if _, err := m.source(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", m.defect, err))
		}
	}
	return chosen, errors.Join(faults...)
}

// source returns the file of m with the defect in it.
func (m mutant) source() ([]byte, error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%s has the text %d times, want once: %q", m.file, n, m.old)
	}
	return bytes.Replace(text, []byte(m.old), []byte(m.new), 1), nil
}

// pkg is the directory of the package whose tests are run: that of the file, and for the
// rooms of a package that has the tests of all the package itself.
func (m mutant) pkg() string {
	if m.in != "" {
		return m.in
	}
	const queue = "exporter/queue"
	if dir := filepath.Dir(m.file); !strings.HasPrefix(dir, queue) {
		return dir
	}
	return queue
}

// workshop builds and runs the tests of packages, mutated or not.
type workshop struct {
	ctx     context.Context
	dir     string // for what is built
	verbose bool
}

// checkSound wants every test that the mutants name to exist and to pass without
// a defect: one that fails anyway catches nothing.
func (w workshop) checkSound(mutants []mutant) error {
	tests := map[string][]string{}
	for _, m := range mutants {
		tests[m.pkg()] = append(tests[m.pkg()], m.tests...)
	}
	for pkg, names := range tests {
		slices.Sort(names)
		names = slices.Compact(names)
		r, err := w.test(pkg, names, nil, longPatience)
		if err != nil {
			return fmt.Errorf("%s: %w", pkg, err)
		}
		if r.verdict != survived {
			return fmt.Errorf("%s: tests fail without a defect: %v\n%s", pkg, r.failed, r.output)
		}
		for _, name := range names {
			if !slices.Contains(r.passed, name) {
				return fmt.Errorf("%s: no test passed that is called %s", pkg, name)
			}
		}
	}
	return nil
}

// try plants one defect.
func (w workshop) try(m mutant) (result, error) {
	overlay, err := w.plant(m)
	if err != nil {
		return result{}, err
	}
	r, err := w.test(m.pkg(), m.tests, overlay, patience)
	if err != nil || r.verdict != timedOut {
		return r, err
	}
	if !m.hangs {
		return w.test(m.pkg(), m.tests, overlay, longPatience)
	}
	sound, err := w.test(m.pkg(), m.tests, nil, patience)
	if err == nil && sound.verdict == survived {
		r.verdict = caught
	}
	return r, err
}

// plant returns the flags that build the package of m with its defect.
func (w workshop) plant(m mutant) (buildFlags []string, err error) {
	text, err := m.source()
	if err != nil {
		return nil, err
	}
	planted := filepath.Join(w.dir, "planted.go")
	if err := os.WriteFile(planted, text, 0o600); err != nil {
		return nil, err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return nil, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: planted}})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(w.dir, "overlay.json")
	return []string{"-overlay", file}, os.WriteFile(file, overlay, 0o600)
}

// verdict is what the tests say of a defect.
type verdict string

const (
	caught   verdict = "caught"
	survived verdict = "SURVIVED"
	timedOut verdict = "TIMED OUT" // neither: the machine may be slow
	broken   verdict = "NO BUILD"
)

// result is what became of the tests.
type result struct {
	verdict        verdict
	passed, failed []string
	output         []byte
}

// resultOf reads the output of tests that ended with exited, nil when all passed.
func resultOf(output []byte, exited error) result {
	r := result{verdict: survived, passed: testsIn(output, "PASS"), failed: testsIn(output, "FAIL"), output: output}
	switch {
	case exited == nil:
	case len(r.failed) == 0 && bytes.Contains(output, []byte("panic: test timed out after ")):
		r.verdict = timedOut
	default:
		r.verdict = caught
	}
	return r
}

func (r result) catcher() string {
	if r.verdict == caught && len(r.failed) == 0 {
		return "(the tests ended early)"
	}
	return strings.Join(r.failed, ", ")
}

// test builds the tests of pkg and runs those called names. That they do not
// build is an error, that they fail is a result.
func (w workshop) test(pkg string, names, buildFlags []string, limit time.Duration) (result, error) {
	binary := filepath.Join(w.dir, "package.test")
	build := exec.CommandContext(w.ctx, "go", slices.Concat([]string{"test", "-c", "-o", binary}, buildFlags, []string{"."})...)
	build.Dir = pkg // which may be of another module
	if out, err := build.CombinedOutput(); err != nil {
		return result{}, fmt.Errorf("build: %w\n%s", err, out)
	}
	run := exec.CommandContext(w.ctx, binary, "-test.v", "-test.failfast",
		"-test.timeout", limit.String(), "-test.run", "^("+strings.Join(names, "|")+")$")
	run.Dir = pkg
	out, err := run.CombinedOutput()
	if w.verbose {
		fmt.Printf("%s", out)
	}
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || w.ctx.Err() != nil) {
		return result{}, errors.Join(err, w.ctx.Err())
	}
	return resultOf(out, err), nil
}

// testsIn returns the names of the top tests that had an outcome. A test that ends
// the process has none.
func testsIn(output []byte, outcome string) (names []string) {
	for line := range strings.Lines(string(output)) {
		if rest, ok := strings.CutPrefix(line, "--- "+outcome+": "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	return names
}
