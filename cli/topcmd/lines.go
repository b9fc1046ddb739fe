package topcmd

import (
	"strings"

	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
)

// style is how a piece of text looks where there are colours.
type style string

// The styles, as a terminal is told of them.
const (
	plain  style = ""
	strong style = "1"
	faint  style = "2"
	good   style = "32"
	warn   style = "33"
	bad    style = "1;31"
)

func styleOf(s exporter.State) style {
	switch s {
	case exporter.Active:
		return good
	case exporter.Error:
		return bad
	}
	return warn
}

// span is a piece of a line. Its text is visible; see terminal.Visible.
type span struct {
	style style
	text  string
}

type line struct {
	spans []span
	rank  int
	row   string // title of the table that it is a row of
	heads string // title of the table that it is the heading of
	of    int    // rows that the table has
}

func (l line) columns() (n int) {
	for _, s := range l.spans {
		n += terminal.Cells(s.text)
	}
	return n
}

// paint is the line in at most width columns; 0: as many as it takes.
func (l line) paint(width int, colour bool) string {
	var b strings.Builder
	left := width
	for _, s := range l.spans {
		text := s.text
		if width > 0 {
			text = terminal.Cut(text, left)
			left -= terminal.Cells(text)
		}
		if colour && s.style != plain && text != "" {
			text = "\x1b[" + string(s.style) + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
		if width > 0 && left <= 0 {
			break
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// fitted is text in exactly so many columns.
func fitted(text string, columns int, right bool) string {
	text = terminal.Cut(text, columns)
	fill := strings.Repeat(" ", columns-terminal.Cells(text))
	if right {
		return fill + text
	}
	return text + fill
}

// noteLines are text in lines of its own, broken between words to fit. The first has the rank.
func noteLines(indent, text string, width int, style style, rank int) (lines []line) {
	text = terminal.Visible(text)
	if text == "" {
		return nil
	}
	if width == 0 {
		return []line{{rank: rank, spans: []span{{style, indent + text}}}}
	}
	most := max(width-len(indent), 1)
	for ; text != ""; rank = more {
		piece := text
		if terminal.Cells(text) > most && len(lines) < maxNote-1 {
			cut := strings.TrimSuffix(terminal.Cut(text, most), "…")
			if space := strings.LastIndexByte(cut, ' '); space > most/2 {
				cut = cut[:space]
			}
			piece = cut
		}
		if piece == "" || len(lines) == maxNote-1 {
			piece = text // no room for even one character: paint cuts it
		}
		lines = append(lines, line{rank: rank, spans: []span{{style, indent + piece}}})
		text = strings.TrimLeft(text[len(piece):], " ")
	}
	return lines
}

// table shows parts of docket, a row each.
type table struct {
	title   string
	columns []column // beside the name
	rows    []row
}

type column struct {
	title string
	right bool
}

type row struct {
	name  string
	state exporter.State
	cells []string // beside name and state
	note  string   // below the row
}

// minName keeps names apart where the columns beside them leave no room.
const minName = 12

// lines are the heading and the rows. The name has what the others leave, and of those the
// last go where there is no room.
func (t table) lines(width int) []line {
	widths := make([]int, len(t.columns))
	name, taken := terminal.Cells(t.title)+len(" 99/99"), 0
	for i, c := range t.columns {
		widths[i] = len(c.title)
		for _, r := range t.rows {
			widths[i] = max(widths[i], terminal.Cells(r.cell(i)))
		}
		taken += 2 + widths[i]
	}
	for _, r := range t.rows {
		name = max(name, terminal.Cells(r.name))
	}
	for width > 0 && minName+taken > width && len(widths) > 1 {
		taken -= 2 + widths[len(widths)-1]
		widths = widths[:len(widths)-1]
	}
	if width > 0 {
		name = min(name, max(width-taken, minName))
	}
	t.columns = t.columns[:len(widths)]
	heading := line{heads: t.title, of: len(t.rows), spans: []span{{faint, fitted(t.title, name, false)}}}
	for i, c := range t.columns {
		heading.spans = append(heading.spans, span{faint, "  " + fitted(c.title, widths[i], c.right)})
	}
	all := []line{heading}
	for _, r := range t.rows {
		l := line{row: t.title, rank: fine, spans: []span{{strong, fitted(r.name, name, false)}}}
		for i, c := range t.columns {
			look := plain
			if i == 0 {
				look = styleOf(r.state)
			}
			l.spans = append(l.spans, span{look, "  " + fitted(r.cell(i), widths[i], c.right)})
		}
		reason := why
		switch {
		case r.state == exporter.Error:
			l.rank, reason = failed, trouble
		case r.state != exporter.Active:
			l.rank = trouble
		case r.note != "":
			l.rank = why
		}
		all = append(all, l)
		all = append(all, noteLines("  ", r.note, width, plain, reason)...)
	}
	return all
}

// cell is what stands in a column beside the name.
func (r row) cell(column int) string {
	if column == 0 {
		return string(r.state)
	}
	return r.cells[column-1]
}
