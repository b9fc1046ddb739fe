package querycmd

import (
	"bytes"
	"io"
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

// rows are records in one of the forms.
type rows struct {
	count int
	text  []byte
}

// empty returns rows without records, in the memory of r.
func (r *rows) empty() rows { return rows{text: r.text[:0]} }

func (r *rows) addLine(record []byte) {
	r.count++
	r.text = append(append(r.text, record...), '\n')
}

// csvFields are those of the normalized form, but for when: the time stands in front.
var csvFields = decision.NormalizedFields()[1:]

// csvHeader is the first line of csv.
func csvHeader() (line []byte) {
	for _, name := range append([]string{"time", "timeFrom"}, csvFields...) {
		line = appendField(line, name)
	}
	return endLine(line)
}

func (r *rows) addCSV(m moment, form *decision.Normalized) {
	r.count++
	line := appendField(appendField(r.text, m.text()), string(m.source))
	for _, name := range csvFields {
		line = appendField(line, form.Field(name))
	}
	r.text = endLine(line)
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

// writer writes rows in order.
type writer struct {
	w        io.Writer
	form     form
	terminal bool // w is one

	begun bool // the header of csv was written
}

// write writes some rows.
func (w *writer) write(r *rows) error {
	if r.count == 0 {
		return nil
	}
	return w.writeText(r.text)
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

// end writes the header of a csv without rows.
func (w *writer) end() error {
	if w.form == csv && !w.begun {
		return w.writeText(nil)
	}
	return nil
}
