package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docket-export/docket/bench/chart"
)

// Page is a page of Markdown, and the charts that it shows.
type Page struct {
	text      bytes.Buffer
	directory string            // where the links find the charts: that of Save, seen from the page
	charts    map[string][]byte // by file name
	err       error             // the first of Chart
}

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

// Chart draws a chart for a file of that name, and shows it on the page. That it cannot
// be drawn is told by Save.
func (p *Page) Chart(file string, c *chart.Chart) {
	var svg bytes.Buffer
	if err := c.Write(&svg); err != nil && p.err == nil {
		p.err = err
	}
	p.charts[file] = svg.Bytes()
	p.Printf("![%s](%s/%s)\n", c.Title, p.directory, file)
}

// Save writes the page of r to a file, and its charts to the directory of that name
// without its ending. Charts that the page has no more are removed from there.
func Save(name string, r Report) error {
	directory := strings.TrimSuffix(name, filepath.Ext(name))
	if directory == name {
		return fmt.Errorf("%s needs an ending, such as .md: its charts are written to the directory of that name without it", name)
	}
	p := &Page{directory: filepath.Base(directory), charts: map[string][]byte{}}
	if r.WritePage(p); p.err != nil {
		return p.err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	if err := p.removeOthers(directory); err != nil {
		return err
	}
	for file, svg := range p.charts {
		if err := os.WriteFile(filepath.Join(directory, file), svg, 0o666); err != nil {
			return err
		}
	}
	return os.WriteFile(name, p.text.Bytes(), 0o666)
}

// removeOthers removes charts that the page does not show.
func (p *Page) removeOthers(directory string) error {
	there, err := filepath.Glob(filepath.Join(directory, "*.svg"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range there {
		if p.charts[filepath.Base(path)] == nil {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}
