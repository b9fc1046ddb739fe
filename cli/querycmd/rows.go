package querycmd

import (
	"cmp"
	"strings"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/internal/human"
)

// form is how the records that were found are written.
type form string

// The forms.
const (
	ndjson form = "ndjson" // the records' own bytes
	csv    form = "csv"    // the normalized form, RFC 4180
	table  form = "table"  // most of the normalized form, for people
)

// rows are records in one of the forms.
type rows struct {
	count int
	text  []byte     // of ndjson and csv
	cells [][]string // of a table
}

// empty returns rows without records, in the memory of r.
func (r *rows) empty() rows { return rows{text: r.text[:0], cells: r.cells[:0]} }

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

// tableHeader names the columns of a table.
var tableHeader = []string{"TIME", "FROM", "ENGINE", "PROCESS", "DECISION", "POLICY", "RESOURCE", "NAMESPACE", "NAME", "USER", "OPERATION", "MESSAGE"}

func (r *rows) addCells(m moment, form *decision.Normalized) {
	r.count++
	decided := string(form.Decision)
	if form.FailedOpen {
		decided = "failedOpen"
	}
	resource := cmp.Or(form.Resource.Kind, form.Resource.Plural)
	if form.Resource.Subresource != "" {
		resource += "/" + form.Resource.Subresource
	}
	policy := form.Policy.Name
	if form.Policy.Kind != "" {
		policy = form.Policy.Kind + "/" + policy
	}
	cells := []string{
		m.text(), string(m.source), string(form.Engine), string(form.Process), decided, policy,
		resource, form.Resource.Namespace, form.Resource.Name, form.User, form.Operation, form.Message,
	}
	for i, text := range cells {
		cells[i] = cmp.Or(strings.TrimSpace(human.OneLine(text)), "-")
	}
	r.cells = append(r.cells, cells)
}
