package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// measure fills the lines of both sides, pair after pair. Each pair begins with the
// other side, so that neither always comes first.
func (w *workshop) measure(ctx context.Context) error {
	began := time.Now()
	runs := 2 * w.options.count
	for i := range w.options.count {
		pair := []*side{&w.base, &w.head}
		if i%2 == 1 {
			pair[0], pair[1] = pair[1], pair[0]
		}
		for j, s := range pair {
			done := 2*i + j
			progress("pair %d of %d: %s%s", i+1, w.options.count, s.name, left(time.Since(began), done, runs-done))
			if err := w.once(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}

// left says how long the runs to come will take if they take as long as those
// before.
func left(took time.Duration, done, todo int) string {
	if done == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s left)", (took / time.Duration(done) * time.Duration(todo)).Round(time.Second))
}

// benchmarksWait bounds the benchmarks of one package, whatever hangs.
const benchmarksWait = 5 * time.Minute

// once measures everything once on one side.
func (w *workshop) once(ctx context.Context, s *side) error {
	if w.options.only != "" {
		if err := w.onceDocket(ctx, s); err != nil {
			return err
		}
	}
	for _, test := range s.tests {
		said, err := output(ctx, test.dir, test.path, "-test.run=^$", "-test.count=1",
			"-test.bench="+w.options.bench, "-test.benchtime="+w.options.benchtime, "-test.timeout="+benchmarksWait.String())
		if err != nil {
			return err
		}
		if writeBenchmarks(&s.lines, said) == 0 {
			progress("%s: no benchmark of %s matches -bench", s.name, test.name)
		}
	}
	return nil
}

// onceDocket lets docket do what it has to.
func (w *workshop) onceDocket(ctx context.Context, s *side) error {
	results := filepath.Join(w.dir, "results.json")
	if _, err := output(ctx, w.head.tree, w.bench, "-docket", s.docket, "-only", w.options.only,
		"-rounds", "1", "-json", results); err != nil {
		return err
	}
	data, err := os.ReadFile(results)
	if err != nil {
		return err
	}
	return writeReport(&s.lines, data)
}
