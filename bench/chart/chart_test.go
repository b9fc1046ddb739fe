package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

func two() *Chart {
	return &Chart{
		Title: "A & B", About: "What <is> compared.", Unit: "records/s",
		Legend: map[Look]string{Own: "docket", Beside: "others", Failing: "never shown"},
		Groups: []Group{{Title: "Group", Bars: []Bar{
			{Label: "first", Value: 1500, Least: 1000, Greatest: 2000, Look: Own, Target: &Target{Value: 1200}},
			{Label: "second", Value: 500, Target: &Target{Value: 800, AtMost: true}},
		}}},
	}
}

func draw(t *testing.T, c *Chart) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	dec := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return b.String()
		} else if err != nil {
			t.Fatalf("the file is no XML: %v\n%s", err, b.String())
		}
	}
}

func TestChart(t *testing.T) {
	svg := draw(t, two())
	for _, want := range []string{
		"<title id=\"title\">A &amp; B</title>", "What &lt;is&gt; compared.",
		// What screen readers read.
		"Group: first 1 500 records/s, 1 000 .. 2 000, target at least 1 200; second 500 records/s, target at most 800.",
		"prefers-color-scheme:dark", ">docket<", ">others<", ">target: at least<", ">target: at most<",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("got no %q in:\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "never shown") {
		t.Error("the legend explains what no bar has")
	}
	if again := draw(t, two()); again != svg {
		t.Error("the same figures gave another file")
	}
}

func TestBarsAreAsLongAsTheirValues(t *testing.T) {
	c := &Chart{Groups: []Group{{Bars: []Bar{{Value: 100}, {Value: 50}, {Value: 0}}}}}
	svg := draw(t, c)
	for _, want := range []string{`width="340.0"`, `width="170.0"`, `width="1.0"`} {
		if strings.Count(svg, want) != 1 {
			t.Errorf("got %d bars of %s, want 1 in:\n%s", strings.Count(svg, want), want, svg)
		}
	}
}

func TestFiguresThatCannotBeDrawn(t *testing.T) {
	for name, c := range map[string]*Chart{
		"no bars":       {},
		"not a number":  {Groups: []Group{{Bars: []Bar{{Value: math.NaN()}}}}},
		"infinite":      {Groups: []Group{{Bars: []Bar{{Value: math.Inf(1)}}}}},
		"negative":      {Groups: []Group{{Bars: []Bar{{Value: -1}}}}},
		"log of 0":      {Log: true, Groups: []Group{{Bars: []Bar{{Value: 0}}}}},
		"unknown look":  {Groups: []Group{{Bars: []Bar{{Value: 1, Look: looks}}}}},
		"bad whisker":   {Groups: []Group{{Bars: []Bar{{Value: 1, Least: -1, Greatest: 2}}}}},
		"target of log": {Log: true, Groups: []Group{{Bars: []Bar{{Value: 1, Target: &Target{}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := c.Write(&b); err == nil || b.Len() > 0 {
				t.Errorf("got %v and %d bytes, want an error and nothing", err, b.Len())
			}
		})
	}
}

func TestAxis(t *testing.T) {
	for name, tt := range map[string]struct {
		values []float64
		log    bool
		ticks  []float64
	}{
		"linear":       {[]float64{3, 87}, false, []float64{0, 20, 40, 60, 80, 100}},
		"round end":    {[]float64{100}, false, []float64{0, 20, 40, 60, 80, 100}},
		"all zero":     {[]float64{0}, false, []float64{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}},
		"log":          {[]float64{0.3, 4}, true, []float64{0.2, 0.5, 1, 2, 5}},
		"log, far":     {[]float64{3, 40000}, true, []float64{1, 10, 100, 1000, 10000, 100000}},
		"log, one end": {[]float64{1, 10}, true, []float64{1, 2, 5, 10, 20}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAxis(tt.values, tt.log)
			if !slices.Equal(a.ticks, tt.ticks) {
				t.Errorf("got ticks %v, want %v", a.ticks, tt.ticks)
			}
			for _, v := range tt.values {
				if at := a.at(v); at < 0 || at > 1 {
					t.Errorf("%v stands at %v, want a place on the axis", v, at)
				}
			}
		})
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.1234: "0.123", 99.94: "99.9", 100: "100", 1234.4: "1 234", 1234567: "1 234 567"} {
		if got := Number(v); got != want {
			t.Errorf("%v: got %q, want %q", v, got, want)
		}
	}
}
