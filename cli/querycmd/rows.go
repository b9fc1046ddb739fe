package querycmd

import (
	"bufio"
	"bytes"
	"strings"

	"github.com/docket-export/docket/decision"
)

// form is how the records that were found are written.
type form string

// The forms.
const (
	ndjson form = "ndjson" // the records' own bytes
	csv    form = "csv"    // the normalized form, RFC 4180
)

// csvFields are those of the normalized form, but for when: the time stands in front.
var csvFields = decision.NormalizedFields()[1:]

// csvHeader is the first line of csv.
func csvHeader() (line []byte) {
	for _, name := range append([]string{"time", "timeFrom"}, csvFields...) {
		line = appendField(line, name)
	}
	return endLine(line)
}

// appendField appends a field of csv and a comma. A text that a spreadsheet would take for
// a formula gets an apostrophe in front: it shows the text then.
func appendField(line []byte, text string) []byte {
	isFormula := text != "" && strings.ContainsRune("=+-@\t\r＝＋－＠", []rune(text)[0])
	if !isFormula && !strings.ContainsAny(text, "\",\r\n") {
		return append(append(line, text...), ',')
	}
	line = append(line, '"')
	if isFormula {
		line = append(line, '\'')
	}
	return append(append(line, strings.ReplaceAll(text, `"`, `""`)...), '"', ',')
}

// endLine ends a line of csv in place of its last comma.
func endLine(line []byte) []byte { return append(line[:len(line)-1], '\r', '\n') }

// writer writes records.
type writer struct {
	w        *bufio.Writer
	form     form
	terminal bool // w is one: it shows each record at once

	begun bool   // the header of csv was written
	row   []byte // reused
}

// line writes the record's own bytes.
func (w *writer) line(record []byte) error {
	w.row = append(append(w.row[:0], record...), '\n')
	return w.write(w.row)
}

// csv writes the normalized form of a record of the moment m.
func (w *writer) csv(m moment, form *decision.Normalized) error {
	if err := w.header(); err != nil {
		return err
	}
	w.row = appendField(appendField(w.row[:0], m.text()), string(m.source))
	for _, name := range csvFields {
		w.row = appendField(w.row, form.Field(name))
	}
	w.row = endLine(w.row)
	return w.write(w.row)
}

// header writes the first line of csv.
func (w *writer) header() error {
	if w.form != csv || w.begun {
		return nil
	}
	w.begun = true
	return w.write(csvHeader())
}

func (w *writer) write(row []byte) error {
	if w.terminal {
		row = bytes.ReplaceAll(row, []byte("\r\n"), []byte("\n")) // a terminal shows the first of the two
	}
	_, err := w.w.Write(row)
	if err == nil && w.terminal {
		err = w.w.Flush()
	}
	return err
}

// end writes what waits, and the header of a csv without rows.
func (w *writer) end() error {
	if err := w.header(); err != nil {
		return err
	}
	return w.w.Flush()
}
