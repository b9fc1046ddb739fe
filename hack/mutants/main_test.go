package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A change of the source that a defect no longer fits shows here, long before
// somebody tries the mutants.
func TestTableFitsTheSource(t *testing.T) {
	t.Chdir("../..")
	if _, err := choose(selection{}); err != nil {
		t.Errorf("table.go has to follow the source:\n%v", err)
	}
	seen := map[string]bool{}
	for _, m := range table {
		if seen[m.defect] {
			t.Errorf("two defects are called %q", m.defect)
		}
		seen[m.defect] = true
		for _, test := range m.tests {
			if !hasTest(t, m.pkg(), test) {
				t.Errorf("%s: got no %s in %s, want the test that catches it", m.defect, test, m.pkg())
			}
		}
		if len(m.tests) == 0 {
			t.Errorf("%s: got no test that is to catch it", m.defect)
		}
	}
}

func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {") {
			return true
		}
	}
	return false
}

func TestTextThatDoesNotFit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.go")
	if err := os.WriteFile(path, []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for old, want := range map[string]string{"one": "1 two two", "two": "", "three": ""} {
		got, err := mutant{file: path, old: old, new: "1"}.source()
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("replace %q: got %q, %v, want %q", old, got, err, want)
		}
	}
}

// A slow machine's time-out is no catch, and a test that failed before it is one.
func TestVerdicts(t *testing.T) {
	exited := errors.New("exit status 2")
	for output, want := range map[string]verdict{
		"--- FAIL: TestA (0.00s)\nFAIL\n": caught,
		"panic: nil map\n":                caught,
		"--- PASS: TestA (0.00s)\npanic: test timed out after 1m0s\n":                    timedOut,
		"--- FAIL: TestA (0.00s)\npanic: test timed out after 1m0s\nrunning: TestB\n":    caught,
		"=== RUN   TestA\nfatal error: all goroutines are asleep - deadlock!\nTestA()\n": caught,
	} {
		if got := resultOf([]byte(output), exited).verdict; got != want {
			t.Errorf("%q: got %q, want %q", output, got, want)
		}
	}
	if got := resultOf([]byte("--- PASS: TestA (0.00s)\nPASS\n"), nil).verdict; got != survived {
		t.Errorf("tests that pass: got %q, want %q", got, survived)
	}
}

// Every mutant is in one shard, and has its turn in a rotation before any comes again.
func TestSelectionCoversTheTable(t *testing.T) {
	var all []mutant
	for i := range 23 {
		all = append(all, mutant{defect: fmt.Sprint("defect ", i)})
	}
	count := func(picks ...selection) map[string]int {
		seen := map[string]int{}
		for _, pick := range picks {
			chosen, err := pick.of(all)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range chosen {
				seen[m.defect]++
			}
		}
		return seen
	}
	var days []selection
	for day := range 23 { // ten a day: each ten times
		days = append(days, selection{rotate: 10, date: time.Date(2026, 2, 20+day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)})
	}
	shards := count(selection{shard: "1/3"}, selection{shard: "2/3"}, selection{shard: "3/3"})
	rotated, early := count(days...), count(days[:2]...)
	for _, m := range all {
		if shards[m.defect] != 1 || rotated[m.defect] != 10 || early[m.defect] > 1 {
			t.Errorf("%s: got in %d shards, in %d of 23 days and in %d of two, want 1, 10 and at most 1", m.defect, shards[m.defect], rotated[m.defect], early[m.defect])
		}
	}
	for _, bad := range []selection{{shard: "4/3"}, {shard: "0/3"}, {shard: "x"}, {rotate: 1, date: "today"}, {pattern: "("}, {pattern: "nothing"}} {
		if _, err := bad.of(all); err == nil {
			t.Errorf("%+v: got no error", bad)
		}
	}
}
