package main

import (
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
)

// mixed is what benchstat says of testdata/base.txt and head.txt, of which every
// figure has changed in another way.
func mixed(t *testing.T) []change {
	t.Helper()
	f, err := os.Open("testdata/mixed.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	changes, err := parseChanges(f)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func TestParseChanges(t *testing.T) {
	want := []change{
		{"Growing/rate", "records/s", 431003.5, 331003.5, true, "p=0.002 n=6"},
		{"Http/rate", "records/s", 800003.5, 900003.5, true, "p=0.002 n=6"},
		{"Growing/cpu", "s", 1.1035, 1.1035, false, "p=1.000 n=6"},
		{"Growing/memory", "B", 20350000, 21150000, true, "p=0.002 n=6"},
		{"Single/ack", "us", 73.5, 83.5, true, "p=0.002 n=6"},
		{"Noisy-2", "sec/op", 2e-09, 4e-09, false, "p=0.054 n=6"},
		{"Alloc-2", "sec/op", 1.0000000000000001e-07, 1.0000000000000001e-07, false, "p=1.000 n=6"},
		{"Alloc-2", "B/op", 0, 0, false, "p=1.000 n=6"},
		{"Alloc-2", "allocs/op", 0, 1, true, "p=0.002 n=6"},
		{"Odd-2", "frobs/op", 1, 2, true, "p=0.002 n=6"},
	}
	got := mixed(t)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("got %d changes\n%v\nwant %d, and another number %d\n%v", len(got), got, len(want), i+1, want)
		}
	}
}

func TestParseChangesUnexpected(t *testing.T) {
	const headings = ",base,,head,,,\n,sec/op,CI,sec/op,CI,vs base,P\n"
	for name, table := range map[string]string{
		"a value":       headings + "X,fast,0%,1,0%,~,p=1.000 n=6\n",
		"no difference": headings + "X,1,0%,1,0%,,\n",
		"a quote":       headings + "X\",1,0%\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseChanges(strings.NewReader(table)); !errors.Is(err, errTable) {
				t.Errorf("got %v and error %v, want %v", got, err, errTable)
			}
		})
	}
}

// One side without any result must not pass for "no regression".
func TestParseChangesNothingInCommon(t *testing.T) {
	for name, table := range map[string]string{
		"nothing":   "",
		"only head": ",head,\n,sec/op,CI\nNew,1,0%\n",
		"disjoint":  ",base,,head,,,\n,sec/op,CI,sec/op,CI,vs base,P\nOld,1,0%\nNew,,,1,0%\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseChanges(strings.NewReader(table)); err == nil || !strings.Contains(err.Error(), "nothing was compared") {
				t.Errorf("got %v and error %v, want the error that nothing was compared", got, err)
			}
		})
	}
}

func TestLoss(t *testing.T) {
	for name, test := range map[string]struct {
		change change
		want   float64
		known  bool
	}{
		"a lower rate":         {change{unit: "records/s", base: 100, head: 75}, 0.25, true},
		"a higher rate":        {change{unit: "B/s", base: 100, head: 125}, -0.25, true},
		"more time":            {change{unit: "sec/op", base: 100, head: 125}, 0.25, true},
		"a later ack":          {change{unit: "us", base: 100, head: 125}, 0.25, true},
		"more processor time":  {change{unit: "s", base: 100, head: 125}, 0.25, true},
		"less memory":          {change{unit: "B", base: 100, head: 75}, -0.25, true},
		"nothing, as before":   {change{unit: "allocs/op"}, 0, true},
		"something of nothing": {change{unit: "allocs/op", head: 1}, math.Inf(1), true},
		"a unit of its own":    {change{unit: "frobs/op", base: 100, head: 125}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, known := test.change.loss()
			if got != test.want || known != test.known {
				t.Errorf("got %v, %v, want %v, %v", got, known, test.want, test.known)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	for name, test := range map[string]struct {
		bound float64
		want  []string
		err   error
	}{
		"5 %": {0.05, []string{
			"WORSE: Growing/rate: 4.31e+05 -> 3.31e+05 records/s, 23.2 % (p=0.002 n=6)",
			"WORSE: Single/ack: 73.5 -> 83.5 us, 13.6 % (p=0.002 n=6)",
			"WORSE: Alloc-2: 0 -> 1 allocs/op, from nothing (p=0.002 n=6)",
			"not judged: Odd-2: whether more frobs/op is better is unknown",
			"3 of 10 figures became worse by more than 5 %",
		}, errWorse},
		"20 %": {0.2, []string{
			"WORSE: Growing/rate: 4.31e+05 -> 3.31e+05 records/s, 23.2 % (p=0.002 n=6)",
			"WORSE: Alloc-2: 0 -> 1 allocs/op, from nothing (p=0.002 n=6)",
			"not judged: Odd-2: whether more frobs/op is better is unknown",
			"2 of 10 figures became worse by more than 20 %",
		}, errWorse},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := judge(&out, mixed(t), test.bound); !errors.Is(err, test.err) {
				t.Errorf("got error %v, want %v", err, test.err)
			}
			if got := strings.Split(strings.TrimSpace(out.String()), "\n"); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", out.String(), strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestJudgeNothingWorse(t *testing.T) {
	var out strings.Builder
	changes := []change{
		{"Better", "s", 2, 1, true, ""},
		{"Chance", "s", 1, 2, false, ""},
		{"Small", "s", 100, 104, true, ""},
	}
	if err := judge(&out, changes, 0.05); err != nil {
		t.Errorf("got error %v, want none", err)
	}
	if want := "no regression: none of 3 figures became worse by more than 5 %\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
