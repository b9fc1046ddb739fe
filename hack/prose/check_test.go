package main

import (
	"os"
	"strings"
	"testing"
)

// The files of testdata have a mistake where a line says so, and none elsewhere.
func TestCheck(t *testing.T) {
	for _, file := range []string{"testdata/bad.md", "testdata/good.md", "testdata/bad.go", "testdata/long.md"} {
		found, err := check(".", []string{file})
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(file + ".findings")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(found, "\n") + "\n"; strings.TrimSpace(got) != strings.TrimSpace(string(want)) {
			t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
		}
	}
}

// Each line of words.txt has a pattern, an advice, and a sentence in testdata/turns.md that it finds.
func TestEachTurnIsFound(t *testing.T) {
	page, err := os.ReadFile("testdata/turns.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range turns {
		if turn.advice == "" {
			t.Errorf("%s: no advice", turn.pattern)
		}
		if !turn.pattern.Match(page) {
			t.Errorf("%s: testdata/turns.md has no example of it", turn.pattern)
		}
	}
}

func TestSplit(t *testing.T) {
	got := split("A first, e.g. this. Version 1.5 is one! \"Is it?\" It ends")
	want := []string{"A first, eg this", "Version 1.5 is one", "\"Is it", "It ends"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}
