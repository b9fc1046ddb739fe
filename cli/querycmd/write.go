package querycmd

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// writer writes rows in order.
type writer struct {
	w        io.Writer
	form     form
	terminal bool // w is one

	// Of a table: the first rows say how wide its columns are.
	first  [][]string
	widths []int
	begun  bool // the header was written
}

const (
	// rowsForWidths is how many rows say how wide the columns of a table are. Later ones may
	// need more room, and take it.
	rowsForWidths = 200
	// maxWidth keeps one long text from moving all columns behind it far away.
	maxWidth = 40
)

// write writes some rows.
func (w *writer) write(r *rows) error {
	switch {
	case r.count == 0:
		return nil
	case w.form != table:
		return w.writeText(r.text)
	case w.begun:
		return w.writeCells(r.cells)
	}
	w.first = append(w.first, r.cells...)
	if len(w.first) < rowsForWidths {
		return nil
	}
	return w.end()
}

func (w *writer) writeText(text []byte) error {
	if w.form == csv && !w.begun {
		w.begun = true
		text = append(csvHeader(), text...)
	}
	if w.form == csv && w.terminal {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) // a terminal shows the first of the two
	}
	_, err := w.w.Write(text)
	return err
}

// end writes what was kept back. A csv without rows has its header, a table has not.
func (w *writer) end() error {
	switch {
	case w.form == csv && !w.begun:
		return w.writeText(nil)
	case w.form != table || w.begun || len(w.first) == 0:
		return nil
	}
	rows := append([][]string{tableHeader}, w.first...)
	w.begun, w.first = true, nil
	w.widths = make([]int, len(tableHeader))
	for _, cells := range rows {
		for i, text := range cells {
			w.widths[i] = max(w.widths[i], min(utf8.RuneCountInString(text), maxWidth))
		}
	}
	return w.writeCells(rows)
}

func (w *writer) writeCells(rows [][]string) error {
	var b strings.Builder
	for _, cells := range rows {
		last := len(cells) - 1
		for i, text := range cells[:last] {
			b.WriteString(text)
			b.WriteString(strings.Repeat(" ", max(w.widths[i]-utf8.RuneCountInString(text), 0)+2))
		}
		b.WriteString(cells[last])
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w.w, b.String())
	return err
}
