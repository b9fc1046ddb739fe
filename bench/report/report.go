// Package report writes down what the benchmarks have measured, and judges it: for a
// terminal, as JSON and as a page of Markdown.
package report

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/docket-export/docket/bench/host"
)

// Head is what a reader needs to know of all figures of a report.
type Head struct {
	Machine host.Machine `json:"machine"`
	Rounds  int          `json:"rounds"`
	Records int          `json:"records"`
}

// Conditions says what the figures are, in a sentence without its full stop.
func (h Head) Conditions() string {
	rounds := "1 round"
	if h.Rounds > 1 {
		rounds = strconv.Itoa(h.Rounds) + " rounds"
	}
	return fmt.Sprintf("Medians of %s, with the least and the greatest; %s records of 1 KB in each measurement under load",
		rounds, Number(float64(h.Records)))
}

// Report is everything that a benchmark has measured. As JSON it is what -json writes
// and -from reads.
type Report interface {
	// WriteTable writes the results for a terminal.
	WriteTable(w io.Writer) error
	// WritePage writes the results on p.
	WritePage(p *Page)
}

// Files say where a report goes, and where it comes from. Each may be empty.
type Files struct {
	JSON     string
	Markdown string
	From     string
}

// Flags defines the flags that name the files.
func (f *Files) Flags(flags *flag.FlagSet) {
	flags.StringVar(&f.JSON, "json", "", "write the results to `FILE`")
	flags.StringVar(&f.Markdown, "markdown", "", "write the page to `FILE`")
	flags.StringVar(&f.From, "from", "", "take the results from `FILE` instead of measuring")
}

// Write writes r to out and to the files.
func (f Files) Write(out io.Writer, r Report) error {
	if err := r.WriteTable(out); err != nil {
		return err
	}
	if f.JSON != "" {
		if err := WriteJSON(f.JSON, r); err != nil {
			return err
		}
	}
	if f.Markdown == "" {
		return nil
	}
	return Save(f.Markdown, r)
}

// WriteJSON writes r to a file, and makes its directory where that is missing.
func WriteJSON(name string, r Report) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return errors.Join(enc.Encode(r), f.Close())
}

// ReadJSON reads a file of WriteJSON into r.
func ReadJSON(name string, r Report) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Section is a table with a title. All its rows have as many cells.
type Section struct {
	Title string
	Rows  [][]string
}

// WriteSections writes tables for a terminal, whose columns are all aligned.
func WriteSections(w io.Writer, sections []Section) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range sections {
		fmt.Fprintf(t, "\n%s\n", s.Title)
		for _, row := range s.Rows {
			fmt.Fprintf(t, "  %s\n", strings.Join(row, "\t"))
		}
	}
	return t.Flush()
}
