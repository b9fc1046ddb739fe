package config

import (
	"slices"
	"testing"
)

func parse(t *testing.T, text string) Node {
	t.Helper()
	doc, problems := Parse([]byte(text))
	if len(problems) > 0 {
		t.Fatalf("Parse: %v", problems)
	}
	return doc
}

func TestNode(t *testing.T) {
	doc := parse(t, "# head\nz: 1\na:\n  - x: 1\n    y.z:\n      - 2\n  -\n    x: 3\n")
	if got, want := doc.Keys(), []string{"z", "a"}; !slices.Equal(got, want) {
		t.Errorf("Keys: got %q, want %q in the order of the file", got, want)
	}
	if _, ok := doc.Get("b"); ok {
		t.Error("Get of a key that is not there: got true")
	}
	list, _ := doc.Get("a")
	if got := len(list.Items()); got != 2 {
		t.Fatalf("Items: got %d, want 2", got)
	}
	deep, ok := list.Items()[0].Get("y.z")
	if !ok {
		t.Fatal("Get y.z: got false")
	}
	places := []struct {
		node Node
		path string
		line int
	}{
		{doc, "", 2},
		{list, "a", 3},
		{list.Items()[0], "a[0]", 4},
		{deep, `a[0]["y.z"]`, 5},
		{deep.Items()[0], `a[0]["y.z"][0]`, 6},
		{list.Items()[1], "a[1]", 8},
	}
	for _, p := range places {
		if p.node.Path() != p.path || p.node.Line() != p.line {
			t.Errorf("got %s on line %d, want %s on line %d", p.node.Path(), p.node.Line(), p.path, p.line)
		}
	}
	if got, want := deep.Problemf("is %d", 7).String(), `line 5: a[0]["y.z"]: is 7`; got != want {
		t.Errorf("Problemf: got %s, want %s", got, want)
	}
}

func TestLocate(t *testing.T) {
	doc := parse(t, "queue: {}\nsinks:\n- name: a\n  http:\n    url: x\n    headers:\n      A.B: x\n")
	var p Problems
	p.Addf("sinks[0].http.url", "must be absolute")
	p.Addf("sinks[0].http.headers[\"A.B\"]", "must be a token")
	p.Addf("sinks[0].http.headers[\"C.D\"]", "must be there")
	p.Addf("sinks[0].http.timeout", "must be positive")
	p.Addf("sinks[1]", "must be there")
	p.Addf("queue.directory", "must be set")
	p.Addf("sources", "must be set")
	p = append(p, Problem{Path: "sinks", Line: 99, Text: "has a line already"})
	const want = `sources: must be set
line 1: queue.directory: must be set
line 2: sinks[1]: must be there
line 4: sinks[0].http.timeout: must be positive
line 5: sinks[0].http.url: must be absolute
line 6: sinks[0].http.headers["C.D"]: must be there
line 7: sinks[0].http.headers["A.B"]: must be a token
line 99: sinks: has a line already`
	before := slices.Clone(p)
	if got := texts(doc.Locate(p)); got != want {
		t.Errorf("Locate:\n got %s\nwant %s", got, want)
	}
	if !slices.Equal(p, before) {
		t.Errorf("Locate changed its argument to %v", p)
	}
	if got := (Node{}).Locate(p[:1]); got[0].Line != 0 {
		t.Errorf("Locate in nothing: got line %d, want 0", got[0].Line)
	}
}
