package document

import (
	"slices"
	"testing"
)

const text = `# Page

## First

` + "```sh\n## no heading\nfirst\n```\n\n```text\none\n```\n\n```sh\nsilent\n```\n" + `
### Within

` + "```yaml\nwithin: true\n```\n" + `
## Second

` + "```sh\nsecond\n```\n"

func TestPage(t *testing.T) {
	page := Page{"page", text}
	first := page.Section(t, "First")
	want := []Step{{"## no heading\nfirst\n", "one\n"}, {"silent\n", ""}}
	if got := first.Steps(); !slices.Equal(got, want) {
		t.Errorf("got the steps %q, want %q", got, want)
	}
	for _, section := range []Page{first, first.Section(t, "Within")} {
		if got := section.Blocks(t, "yaml"); !slices.Equal(got, []string{"within: true\n"}) {
			t.Errorf("%s: got the blocks %q, want one", section.name, got)
		}
	}
	if got := page.Sections(); !slices.Equal(got, []string{"First", "Second"}) {
		t.Errorf("got the sections %q, want two", got)
	}
	table := Page{"", "text\n\n| a | b |\n|---|---|\n| `one \\| two` | and `three` |\n| x | y |\n\nmore\n| c |\n"}
	rows := table.Rows()
	if len(rows) != 2 || len(rows[0]) != 2 || !slices.Equal(rows[1], []string{"x", "y"}) {
		t.Fatalf("got the rows %q, want two of two cells", rows)
	}
	if got := append(Quoted(rows[0][0]), Quoted(rows[0][1])...); !slices.Equal(got, []string{"one | two", "three"}) {
		t.Errorf("got the quoted texts %q, want two", got)
	}
	if got := len(page.Steps()); got != 3 {
		t.Errorf("got %d steps of the page, want 3", got)
	}
}

func TestSays(t *testing.T) {
	for want, says := range map[string]bool{
		"NAME READY docket-0 1/1":  true,
		"docket-N N/1 …":           true,
		"docket-0 …":               true,
		"NAME … 1/1 Running":       false,
		"docket-0 2/1":             false,
		"docket-0 1/1 Running N s": false,
	} {
		if got := Says("NAME      READY\ndocket-0  1/1    Running", want); got != says {
			t.Errorf("%q: got %v, want %v", want, got, says)
		}
	}
}

func TestShows(t *testing.T) {
	const said = "one 1\ntwo 2\nthree 3\n"
	for page, shows := range map[string]bool{
		"":                 true,
		"one N\nthree N\n": true,
		"three N\none N\n": false,
		"one N\none N\n":   false,
		"four N\n":         false,
	} {
		if err := Shows(said, page); (err == nil) != shows {
			t.Errorf("%q: got %v, want nil to be %v", page, err, shows)
		}
	}
}
