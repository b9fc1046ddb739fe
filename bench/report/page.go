package report

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// Page is a page of Markdown.
type Page struct{ text bytes.Buffer }

// Printf writes on the page.
func (p *Page) Printf(format string, args ...any) { fmt.Fprintf(&p.text, format, args...) }

// Row writes a row of a table.
func (p *Page) Row(cells ...string) { p.Printf("| %s |\n", strings.Join(cells, " | ")) }

// Table writes a table whose head is its first row.
func (p *Page) Table(rows [][]string) {
	for i, row := range rows {
		p.Row(row...)
		if i == 0 {
			p.Printf("%s|\n", strings.Repeat("|---", len(row)))
		}
	}
}

// Save writes the page of r to a file.
func Save(name string, r Report) error {
	var p Page
	r.WritePage(&p)
	return os.WriteFile(name, p.text.Bytes(), 0o666)
}
