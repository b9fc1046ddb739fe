package main

import (
	"fmt"
	"html"
	"strings"

	"github.com/docket-export/docket/bench/report"
)

// Sizes of the chart, in pixels. A page shows it at 700 to 900 pixels of width.
const (
	chartWidth  = 880
	chartMargin = 24
	panelWidth  = (chartWidth - 3*chartMargin) / 2
	labelWidth  = 118
	valueWidth  = 72
	barHeight   = 16
	barStep     = 24
	panelHead   = 34
	panelGap    = 26
)

// chartStyle colours the chart on a ground of its own, in light and in dark mode.
const chartStyle = `
text { font: 14px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.ground { fill: #ffffff; stroke: #d1d9e0 }
.head { font-weight: 600; font-size: 15px }
.unit, .note { fill: #59636e }
.note { font-size: 13px }
.bar { fill: #8c959f }
.own { fill: #0969da }
.name { text-anchor: end }
text.own { fill: #0969da; font-weight: 600 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .ground { fill: #0d1117; stroke: #3d444d }
  .unit, .note { fill: #9198a1 }
  .bar { fill: #656c76 }
  .own { fill: #4493f8 }
  text.own { fill: #4493f8 }
}
`

// chart draws the headlines as bars, two panels in a row.
func (r *outcome) chart() string {
	var b strings.Builder
	var heads []headline
	for _, h := range work().Headlines {
		if len(r.bars(h)) > 0 {
			heads = append(heads, h)
		}
	}
	rows := 0
	for _, h := range heads {
		rows = max(rows, len(r.bars(h)))
	}
	panelHeight := panelHead + rows*barStep + panelGap
	height := chartMargin + (len(heads)+2)/2*panelHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`, chartWidth, height)
	fmt.Fprintf(&b, "\n<title>docket beside other programs</title>\n<style>%s</style>\n", chartStyle)
	fmt.Fprintf(&b, `<rect class="ground" x="0.5" y="0.5" width="%d" height="%d" rx="6"/>`+"\n", chartWidth-1, height-1)
	at := func(i int) (x, y int) {
		return chartMargin + i%2*(panelWidth+chartMargin), chartMargin + i/2*panelHeight
	}
	for i, h := range heads {
		x, y := at(i)
		r.panel(&b, h, x, y)
	}
	x, y := at(len(heads))
	for i, line := range r.notes() {
		fmt.Fprintf(&b, `<text class="note" x="%d" y="%d">%s</text>`+"\n", x, y+15+i*20, html.EscapeString(line))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// panel draws one headline.
func (r *outcome) panel(b *strings.Builder, h headline, x, y int) {
	bars, most := r.bars(h), h.Full
	for _, one := range bars {
		most = max(most, one.value)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d"><tspan class="head">%s</tspan> <tspan class="unit">%s</tspan></text>`+"\n",
		x, y+15, html.EscapeString(h.What), html.EscapeString(h.Unit))
	for i, one := range bars {
		width, top, fill, text := 1.0, y+panelHead+i*barStep, "bar", ""
		if one.own {
			fill, text = "own", " own"
		}
		if most > 0 {
			width = max(1, one.value/most*(panelWidth-labelWidth-valueWidth-8))
		}
		fmt.Fprintf(b, `<text class="name%s" x="%d" y="%d">%s</text>`, text, x+labelWidth, top+13, html.EscapeString(shortName(one.name)))
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, fill, x+labelWidth+8, top, width, barHeight)
		fmt.Fprintf(b, `<text class="value%s" x="%.1f" y="%d">%s</text>`+"\n", text, float64(x+labelWidth+14)+width, top+13, report.Number(one.value))
	}
}

// shortName is a name that fits beside a bar.
func shortName(name string) string { return strings.Replace(name, "OpenTelemetry ", "OTel ", 1) }

// notes say what the chart shows.
func (r *outcome) notes() []string {
	notes := []string{
		"Each program in its safest setting.",
		"More intake is better. Less is better elsewhere.",
		"Records of 1 KB, 8 producers, destination down.",
		"syslog-ng cannot sync its queue to the disk.",
		fmt.Sprintf("Medians of %d rounds. %s, %d cores, %s.", r.Rounds, r.Machine.CPU, r.Machine.Cores, r.Machine.FileSystem),
	}
	if r.Note != "" {
		notes = append(notes, "The machine was not free: see the page.")
	}
	return notes
}
