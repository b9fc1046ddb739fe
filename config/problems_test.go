package config

import (
	"errors"
	"testing"
)

func TestProblemString(t *testing.T) {
	tests := map[string]Problem{
		"line 3: a.b: must be set": {Path: "a.b", Line: 3, Text: "must be set"},
		"a.b: must be set":         {Path: "a.b", Text: "must be set"},
		"line 3: syntax error":     {Line: 3, Text: "syntax error"},
		"is empty":                 {Text: "is empty"},
	}
	for want, p := range tests {
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestProblemsIn(t *testing.T) {
	p := Problems{{Path: "url"}, {Path: ""}, {Path: "[1].url"}, {Path: `["a.b"]`}}
	moved := p.In("sinks[0].http")
	for i, want := range []string{"sinks[0].http.url", "sinks[0].http", "sinks[0].http[1].url", `sinks[0].http["a.b"]`} {
		if moved[i].Path != want {
			t.Errorf("got %s, want %s", moved[i].Path, want)
		}
	}
	if p[0].Path != "url" || p.In("")[0].Path != "url" {
		t.Errorf("got %s and %s, want url for the original and for no parent", p[0].Path, p.In("")[0].Path)
	}
}

func TestProblemsAreAnErrorWhenThereAreAny(t *testing.T) {
	var p Problems
	p.Check("a", nil)
	if err := p.Err(); err != nil {
		t.Fatalf("no problems: got %v, want nil", err)
	}
	p.Addf("a", "must be at least %d", 1)
	p.Check("b", errors.New("must be set"))
	if got, want := p.Err().Error(), "a: must be at least 1\nb: must be set"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, ok := errors.AsType[Problems](p.Err()); !ok || len(got) != 2 {
		t.Errorf("got %v, want an error that holds both problems", got)
	}
}
