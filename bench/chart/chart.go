// Package chart draws bar charts as SVG files, for pages that are read in light
// and in dark.
//
// A chart is made of its figures alone: the same figures give the same bytes, so
// a test can compare a file with the results it shows. A file needs nothing else:
// no font, no script, no other file. What colours say is also said by shapes or
// in words, and every figure stands in the description that screen readers read.
package chart

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// Chart is a horizontal bar chart.
type Chart struct {
	Title string // what is shown; also the name of the picture
	About string // what else a reader needs to know; may be empty
	Unit  string // of all values, such as records/s; empty for ratios
	// Log makes the axis logarithmic. All values must then be positive.
	Log bool
	// Origin is where bars begin: 0, or the value that all are compared with, at
	// which a line is drawn. On a logarithmic axis 0 stands for its left end.
	Origin float64
	// Legend names the looks. One that no bar has is left out.
	Legend map[Look]string
	Groups []Group
}

// Group is a set of bars below a heading.
type Group struct {
	Title string // may be empty
	Bars  []Bar
}

// Bar is one figure.
type Bar struct {
	Label string
	Value float64
	// Least and Greatest are the ends of a whisker. Where they are equal there is
	// none.
	Least, Greatest float64
	Look            Look
	Target          *Target // nil: none
	// Text stands behind the bar; empty: the value, and the range if there is one.
	Text string
}

// Target is a marker at a value to be reached.
type Target struct {
	Value  float64
	AtMost bool // the value must not be more; otherwise it must not be less
}

func (t *Target) String() string {
	if t.AtMost {
		return "at most " + Number(t.Value)
	}
	return "at least " + Number(t.Value)
}

// Look is how a bar is drawn.
type Look uint8

// The looks.
const (
	Beside  Look = iota // grey: what is compared with
	Own                 // filled: what the chart is about
	Failing             // hollow, with a dashed edge: what falls short
	looks
)

// Write writes the chart as an SVG file. It fails, having written nothing, for
// figures that cannot be drawn.
func (c *Chart) Write(w io.Writer) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("chart %q: %w", c.Title, err)
	}
	_, err := w.Write(c.draw())
	return err
}

func (c *Chart) check() error {
	bars := 0
	for _, g := range c.Groups {
		for i := range g.Bars {
			b := &g.Bars[i]
			if err := c.checkBar(b); err != nil {
				return fmt.Errorf("bar %q: %w", b.Label, err)
			}
			bars++
		}
	}
	if bars == 0 {
		return errors.New("no bars")
	}
	return nil
}

func (c *Chart) checkBar(b *Bar) error {
	for _, v := range b.values() {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return fmt.Errorf("%v is not a number", v)
		case v < 0:
			return fmt.Errorf("%v is negative", v)
		case c.Log && v == 0:
			return errors.New("0 has no place on a logarithmic axis")
		}
	}
	if b.Look >= looks {
		return fmt.Errorf("there is no look %d", b.Look)
	}
	return nil
}

func (b *Bar) whisker() bool { return b.Least < b.Greatest }

// values are all that must have a place on the axis.
func (b *Bar) values() []float64 {
	all := []float64{b.Value}
	if b.whisker() {
		all = append(all, b.Least, b.Greatest)
	}
	if b.Target != nil {
		all = append(all, b.Target.Value)
	}
	return all
}

// text is what stands behind the bar.
func (b *Bar) text() (value, span string) {
	switch {
	case b.Text != "":
		return b.Text, ""
	case b.whisker():
		return Number(b.Value), Number(b.Least) + " .. " + Number(b.Greatest)
	}
	return Number(b.Value), ""
}
