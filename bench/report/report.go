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
	"text/template"

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
	// Text has two templates, each executed on the report: "table" for a terminal,
	// whose columns are separated by tabs, and "page" in Markdown. The function row
	// joins the cells of a row, and rule is the line below the head of a table.
	Text() string
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

// Write writes the table of r to out, and r to the files.
func (f Files) Write(out io.Writer, r Report) error {
	if err := WriteTable(out, r); err != nil {
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

// WriteTable writes the table of r for a terminal.
func WriteTable(out io.Writer, r Report) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if err := write(t, "table", r, "\t"); err != nil {
		return err
	}
	return t.Flush()
}

// Save writes the page of r to a file.
func Save(name string, r Report) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f, "page", r, " | "), f.Close())
}

func write(w io.Writer, name string, r Report, separator string) error {
	row := func(cells []string) string { return strings.Join(cells, separator) }
	rule := func(cells []string) string { return strings.Repeat("|---", len(cells)) + "|" }
	t, err := template.New("").Funcs(template.FuncMap{"row": row, "rule": rule}).Parse(r.Text())
	if err != nil {
		return err
	}
	return t.ExecuteTemplate(w, name, r)
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
func ReadJSON(name string, r any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
