package chart

import (
	"bytes"
	"fmt"
	"strings"
)

// The picture, from left to right: labels, bars, figures. 880 is the width of the
// text of a page that is read in a browser.
const (
	width    = 880
	margin   = 16
	labels   = 280
	gap      = 12
	barsLeft = margin + labels + gap
	barsWide = 340
	barsEnd  = barsLeft + barsWide
	figures  = barsEnd + gap
)

// Letters of the common fonts are at most so wide on average, at the sizes that
// are used below.
const (
	labelLetters = 41  // of 280 px
	aboutLetters = 128 // of 848 px
)

const (
	titleHeight  = 30
	lineHeight   = 16 // of a line of text
	groupHeight  = 28
	barHeight    = 13
	barGap       = 9 // between the rows of two bars
	axisHeight   = 44
	legendHeight = 26
)

// style has the colours of both. Text is told from its ground by a contrast of at
// least 4.5 in both, a bar by 3.
const style = `
text{font-family:system-ui,-apple-system,"Segoe UI","Helvetica Neue",Arial,"DejaVu Sans",sans-serif;font-size:12px;fill:#1f2328}
.ground{fill:#ffffff}.title{font-size:15px;font-weight:600}.group{font-weight:600}.value{font-weight:600}.muted{fill:#59636e}
.small{font-size:11px;fill:#59636e}.grid{stroke:#d1d9e0}.origin{stroke:#1f2328;stroke-width:1.5}.whisker{stroke:#1f2328;stroke-width:1.5;fill:none}
.own{fill:#0969da;stroke:#0969da}.beside{fill:#8c959f;stroke:#8c959f}.failing{fill:none;stroke:#bc4c00;stroke-width:1.5;stroke-dasharray:4 2}
.target{stroke:#8250df;stroke-width:2}.arrow{fill:#8250df}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}.ground{fill:#0d1117}.muted,.small{fill:#9198a1}.grid{stroke:#3d444d}.origin,.whisker{stroke:#f0f6fc}
.own{fill:#1f6feb;stroke:#1f6feb}.beside{fill:#656c76;stroke:#656c76}.failing{stroke:#f0883e}.target{stroke:#bc8cff}.arrow{fill:#bc8cff}
}
`

// class is the name of a look in style.
func (l Look) class() string { return [looks]string{"beside", "own", "failing"}[l] }

// drawing is a picture under way.
type drawing struct {
	bytes.Buffer
	chart *Chart
	axis  axis
	y     float64 // everything above it is drawn
}

// draw returns the file. The picture is as high as what is in it, so that is drawn
// first.
func (c *Chart) draw() []byte {
	top := &drawing{chart: c}
	top.head()
	body := &drawing{chart: c, axis: c.axis(), y: top.y}
	for _, g := range c.Groups {
		body.group(g)
	}
	under := &drawing{chart: c, axis: body.axis}
	under.grid(top.y, body.y)
	height := body.y + axisHeight

	var file bytes.Buffer
	fmt.Fprintf(&file, `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc" width="%d" height="%g" viewBox="0 0 %d %g">`+"\n", width, height, width, height)
	fmt.Fprintf(&file, "<title id=\"title\">%s</title>\n<desc id=\"desc\">%s</desc>\n<style>%s</style>\n", escape(c.Title), escape(c.describe()), style)
	fmt.Fprintf(&file, `<rect class="ground" width="%d" height="%g" rx="6"/>`+"\n", width, height)
	for _, part := range []*drawing{top, under, body} {
		file.Write(part.Bytes())
	}
	file.WriteString("</svg>\n")
	return file.Bytes()
}

// axis has a place for everything that is drawn.
func (c *Chart) axis() axis {
	var all []float64
	for _, g := range c.Groups {
		for i := range g.Bars {
			all = append(all, g.Bars[i].values()...)
		}
	}
	if c.Origin > 0 {
		all = append(all, c.Origin)
	}
	return newAxis(all, c.Log)
}

// head draws the title, what is said of it, and the legend.
func (d *drawing) head() {
	d.y = titleHeight
	d.text("title", margin, d.y, d.chart.Title)
	for _, line := range wrap(d.chart.About, aboutLetters) {
		d.y += lineHeight + 2
		d.text("muted", margin, d.y, line)
	}
	if entries := d.legend(); entries > 0 {
		d.y += legendHeight
	}
	d.y += 4
}

// legend names the looks, the whiskers and the markers that there are, and returns
// how many.
func (d *drawing) legend() (entries int) {
	x, y := float64(margin), d.y+legendHeight-4
	entry := func(name string, draw func(x, y float64)) {
		draw(x, y-barHeight+3)
		d.text("muted", x+28, y, name)
		x += 28 + 6.6*float64(len(name)) + 24
		entries++
	}
	has := d.chart.contents()
	for look := range looks {
		name, named := d.chart.Legend[look]
		if !named || !has.looks[look] {
			continue
		}
		entry(name, func(x, y float64) { d.rect(look, x, y+1, 20, barHeight-4) })
	}
	if has.whiskers {
		entry("least and greatest of the rounds", func(x, y float64) { d.whisker(x, x+20, y, barHeight-2) })
	}
	if has.atLeast {
		entry("target: at least", func(x, y float64) { d.marker(x+6, y, barHeight-2, false) })
	}
	if has.atMost {
		entry("target: at most", func(x, y float64) { d.marker(x+14, y, barHeight-2, true) })
	}
	return entries
}

// contents says what a legend has to explain.
type contents struct {
	looks                     [looks]bool
	whiskers, atLeast, atMost bool
}

func (c *Chart) contents() (has contents) {
	for _, g := range c.Groups {
		for i := range g.Bars {
			b := &g.Bars[i]
			has.looks[b.Look] = true
			has.whiskers = has.whiskers || b.whisker()
			if b.Target != nil {
				has.atMost = has.atMost || b.Target.AtMost
				has.atLeast = has.atLeast || !b.Target.AtMost
			}
		}
	}
	return has
}

// group draws the bars of a group below each other.
func (d *drawing) group(g Group) {
	if g.Title != "" {
		d.text("group", margin, d.y+groupHeight-8, g.Title)
		d.y += groupHeight
	} else {
		d.y += barGap
	}
	for i := range g.Bars {
		d.bar(&g.Bars[i])
	}
}

func (d *drawing) bar(b *Bar) {
	lines := wrap(b.Label, labelLetters)
	high := float64(max(len(lines), 1)*lineHeight + barGap - 4)
	middle := d.y + high/2
	for i, line := range lines {
		d.text("", margin, middle+4+(float64(i)-float64(len(lines)-1)/2)*lineHeight, line)
	}
	top := middle - barHeight/2.
	from, to := d.x(d.chart.Origin), d.x(b.Value)
	d.rect(b.Look, min(from, to), top, max(from, to)-min(from, to), barHeight)
	if b.whisker() {
		d.whisker(d.x(b.Least), d.x(b.Greatest), top, barHeight)
	}
	if b.Target != nil {
		d.marker(d.x(b.Target.Value), top-3, barHeight+6, b.Target.AtMost)
	}
	value, span := b.text()
	d.figures(middle+4, value, span)
	d.y += high
}

// figures writes what stands behind a bar; the range is smaller than the value.
func (d *drawing) figures(y float64, value, span string) {
	fmt.Fprintf(d, `<text x="%d" y="%.1f"><tspan class="value">%s</tspan>`, figures, y, escape(value))
	if span != "" {
		fmt.Fprintf(d, `<tspan class="small" dx="8">%s</tspan>`, escape(span))
	}
	d.WriteString("</text>\n")
}

// grid draws the ticks with their numbers, and the line at which bars begin.
func (d *drawing) grid(top, bottom float64) {
	for _, tick := range d.axis.ticks {
		d.line("grid", d.x(tick), top, bottom+4)
		fmt.Fprintf(d, `<text class="small" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", d.x(tick), bottom+18, Number(tick))
	}
	d.line("origin", d.x(d.chart.Origin), top, bottom+4)
	unit := d.chart.Unit
	if d.chart.Log {
		unit = strings.TrimSpace(unit + " (logarithmic)")
	}
	fmt.Fprintf(d, `<text class="small" x="%d" y="%.1f" text-anchor="middle">%s</text>`+"\n", barsLeft+barsWide/2, bottom+34, escape(unit))
}

// x is where a value stands.
func (d *drawing) x(v float64) float64 { return barsLeft + barsWide*d.axis.at(v) }

func (d *drawing) text(class string, x, y float64, s string) {
	if class != "" {
		class = fmt.Sprintf(" class=%q", class)
	}
	fmt.Fprintf(d, "<text%s x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, x, y, escape(s))
}

// rect draws a bar. One of no length is still to be seen, by its edge.
func (d *drawing) rect(look Look, x, y, wide, high float64) {
	fmt.Fprintf(d, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+"\n", look.class(), x, y, max(wide, 1), high)
}

func (d *drawing) line(class string, x, top, bottom float64) {
	fmt.Fprintf(d, `<path class="%s" d="M%.1f %.1fV%.1f"/>`+"\n", class, x, top, bottom)
}

// whisker draws a line between two values, with a cap at each.
func (d *drawing) whisker(from, to, top, high float64) {
	cap0, cap1, middle := top+2, top+high-2, top+high/2
	fmt.Fprintf(d, `<path class="whisker" d="M%.1f %.1fV%.1fM%.1f %.1fH%.1fM%.1f %.1fV%.1f"/>`+"\n", from, cap0, cap1, from, middle, to, to, cap0, cap1)
}

// marker draws a line at a target, with an arrow to the side where it is met.
func (d *drawing) marker(x, top, high float64, atMost bool) {
	side := 6.
	if atMost {
		side = -side
	}
	fmt.Fprintf(d, `<path class="target" d="M%.1f %.1fV%.1f"/><path class="arrow" d="M%.1f %.1fl%g 3.5l%g 3.5z"/>`+"\n", x, top, top+high, x, top+high/2-3.5, side, -side)
}
