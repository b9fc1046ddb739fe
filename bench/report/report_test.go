package report

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSummarize(t *testing.T) {
	tests := map[string]struct {
		values []float64
		want   Summary
		ranges string
	}{
		"one":          {[]float64{3}, Summary{3, 3, 3}, ""},
		"odd":          {[]float64{9, 1, 4}, Summary{4, 1, 9}, "1 .. 9"},
		"even":         {[]float64{9, 1, 4, 2}, Summary{3, 1, 9}, "1 .. 9"},
		"one outlier":  {[]float64{2, 2, 1000, 2, 1}, Summary{2, 1, 1000}, "1 .. 1 000"},
		"all the same": {[]float64{5, 5}, Summary{5, 5, 5}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(tt.values)
			got := Summarize(tt.values)
			if got != tt.want || got.Range() != tt.ranges {
				t.Errorf("got %+v and %q, want %+v and %q", got, got.Range(), tt.want, tt.ranges)
			}
			if !slices.Equal(tt.values, before) {
				t.Errorf("the values were changed to %v from %v: rounds would no longer match", tt.values, before)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	tests := map[string]struct {
		target Target
		values []float64
		want   string
	}{
		"at least":       {Target{AtLeast: 0.3}, []float64{0.3, 0.3, 0.1}, "met"},
		"less than":      {Target{AtLeast: 0.3}, []float64{0.29, 0.29, 0.9}, "NOT met"},
		"at most":        {Target{AtMost: 25}, []float64{25, 25, 30}, "met"},
		"more than":      {Target{AtMost: 25}, []float64{25.1, 25.1, 20}, "NOT met"},
		"none":           {Target{Zero: true}, []float64{0, 0, 1}, "met"},
		"some":           {Target{Zero: true}, []float64{0, 0.001, 1}, "NOT met"},
		"not a number":   {Target{AtLeast: 0.3}, []float64{math.NaN()}, "NOT met"},
		"not a number 2": {Target{AtMost: 0.3}, []float64{math.NaN()}, "NOT met"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.target.Verdict(tt.values); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// sheet is a report of one line.
type sheet struct{ Head }

func (s *sheet) Text() string {
	return "# Sheet\n\n{{.Conditions}}.\n\n## Empty\n\n## Rows\n\n- Machine\n\n{{table .Rows}}"
}

func (s *sheet) Rows() [][]string { return [][]string{{"what", ""}, {"one", "1"}, {"eleven", ""}} }

// Everything is written where it was asked for.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	f := Options{JSON: filepath.Join(dir, "new", "results.json"), Markdown: filepath.Join(dir, "page.md")}
	var out strings.Builder
	written := &sheet{Head{Rounds: 1, Records: 2000}}
	if err := f.Write(&out, written); err != nil {
		t.Fatal(err)
	}
	if want := "\nRows\n- Machine\n  what    \n  one     1\n  eleven  \n"; out.String() != want {
		t.Errorf("table: got %q, want %q", out.String(), want)
	}
	var back sheet
	if err := ReadJSON(f.JSON, &back); err != nil || back != *written {
		t.Errorf("results: got %+v (%v), want %+v", back, err, *written)
	}
	text, err := os.ReadFile(f.Markdown)
	want := "# Sheet\n\nMedians of 1 round, with the least and the greatest; 2 000 records of 1 KB in each measurement under load.\n\n" +
		"## Empty\n\n## Rows\n\n- Machine\n\n| what |  |\n|---|---|\n| one | 1 |\n| eleven |  |\n"
	if err != nil || string(text) != want {
		t.Errorf("page: got %q (%v), want %q", text, err, want)
	}
}

func TestOptions(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"-rounds 7 -records 1000 -json f", ""},
		{"-rounds 0", "-rounds must be at least 1"},
		{"-records 999", "-records must be at least 1000"},
		{"more", `unexpected argument "more"`},
	} {
		var o Options
		err := o.Parse(flag.NewFlagSet("bench", flag.ContinueOnError), strings.Fields(tt.args), 3, 1000, "")
		if got := fmt.Sprint(err); err == nil && tt.want != "" || err != nil && got != tt.want {
			t.Errorf("%s: got error %v, want %q", tt.args, err, tt.want)
		}
		if want := (Options{Rounds: 7, Records: 1000, JSON: "f"}); err == nil && o != want {
			t.Errorf("%s: got %+v, want %+v", tt.args, o, want)
		}
	}
}
