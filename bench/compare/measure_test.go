package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docket-export/docket/bench/trial"
)

// script makes a program of a few lines of shell, in place of Go benchmarks.
func script(t *testing.T, dir, name, lines string) testBinary {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+lines+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return testBinary{name: name, path: path, dir: dir}
}

// What the machine does to the first or the second of a pair must not be taken for
// a difference of the sides.
func TestMeasureAlternates(t *testing.T) {
	dir := t.TempDir()
	w := &workshop{options: options{count: 3}, dir: dir, base: side{name: "base"}, head: side{name: "head"}}
	for _, s := range []*side{&w.base, &w.head} {
		s.tests = []testBinary{script(t, dir, s.name, fmt.Sprintf("echo %s >>order; echo BenchmarkX 1 1 ns/op", s.name))}
	}
	err := trial.Run(t.Context(), func(tr *trial.T) {
		w.T = tr
		w.measure()
	})
	if err != nil {
		t.Fatal(err)
	}
	order, err := os.ReadFile(filepath.Join(dir, "order"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(strings.Fields(string(order)), " "), "base head head base base head"; got != want {
		t.Errorf("got the order %q, want %q", got, want)
	}
	for _, s := range []*side{&w.base, &w.head} {
		if got, want := s.lines.String(), strings.Repeat("BenchmarkX 1 1 ns/op\n", 3); got != want {
			t.Errorf("%s: got the lines %q, want %q", s.name, got, want)
		}
	}
}

func TestMeasureFails(t *testing.T) {
	dir := t.TempDir()
	w := &workshop{options: options{count: 1}, dir: dir, base: side{name: "base"}, head: side{name: "head"}}
	w.head.tests = []testBinary{script(t, dir, "broken", "echo out of luck >&2; exit 1")}
	err := trial.Run(t.Context(), func(tr *trial.T) {
		w.T = tr
		w.measure()
	})
	if err == nil || !strings.HasPrefix(err.Error(), "head: broken ") || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("got %v, want an error of head's that says what broken said", err)
	}
}

func TestOptionsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no base":        {nil, "make bench-compare BASE=HEAD~1"},
		"an empty base":  {[]string{"-base", ""}, "make bench-compare BASE=HEAD~1"},
		"no pair":        {[]string{"-base", "x", "-count", "0"}, "-count must be at least 1"},
		"a negative one": {[]string{"-base", "x", "-bound", "-1"}, "-bound must not be negative"},
		"no such work":   {[]string{"-base", "x", "-only", "single,sleeping"}, `-only: there is no "sleeping", only backlog, growing`},
		"an extra":       {[]string{"-base", "x", "y"}, `unexpected argument "y"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseOptions(test.args); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// A benchmark that was renamed would drop out of the comparison unseen.
func TestUsualBenchmarksExist(t *testing.T) {
	o, err := parseOptions([]string{"-base", "x"})
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, name := range fields(o.packages) {
		files, err := filepath.Glob(filepath.Join("..", "..", name, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(data)
		}
	}
	for _, name := range regexp.MustCompile(`Benchmark\w+`).FindAllString(o.bench, -1) {
		if !strings.Contains(source.String(), "func "+name+"(b *testing.B)") {
			t.Errorf("no package of %s has a %s", o.packages, name)
		}
	}
}
