// Package report writes down what the benchmarks have measured, and judges it: for a
// terminal, as JSON and as a page of Markdown.
package report

import (
	"bytes"
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

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/bench/site"
)

// Head is what a reader needs to know of all figures of a report.
type Head struct {
	Machine site.Machine `json:"machine"`
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

// Options are what the command lines of all benchmarks say.
type Options struct {
	Rounds  int
	Records int
	Dir     string
	// Where the report goes, and where it comes from. Each may be empty.
	JSON, Markdown, From string
}

// Parse takes the options, and what else is defined in flags, from the command line.
// least is the smallest number of records.
func (o *Options) Parse(flags *flag.FlagSet, args []string, rounds, least int, records string) error {
	flags.IntVar(&o.Rounds, "rounds", rounds, "how often everything is measured")
	flags.IntVar(&o.Records, "records", 200_000, "records of 1 KB in each measurement under load"+records)
	flags.StringVar(&o.Dir, "dir", "", "directory on the disk to measure (default: .cache of the repository)")
	flags.StringVar(&o.JSON, "json", "", "write the results to `FILE`")
	flags.StringVar(&o.Markdown, "markdown", "", "write the page to `FILE`")
	flags.StringVar(&o.From, "from", "", "take the results from `FILE` instead of measuring")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.Rounds < 1:
		return errors.New("-rounds must be at least 1")
	case o.Records < least:
		return fmt.Errorf("-records must be at least %d", least)
	}
	return nil
}

// Write writes the table of r to out, and r to the files.
func (o Options) Write(out io.Writer, r Report) error {
	if err := WriteTable(out, r); err != nil {
		return err
	}
	if o.JSON != "" {
		if err := WriteJSON(o.JSON, r); err != nil {
			return err
		}
	}
	if o.Markdown == "" {
		return nil
	}
	page, err := Page(r)
	if err != nil {
		return err
	}
	return os.WriteFile(o.Markdown, []byte(page), 0o666)
}

// WriteTable writes the table of r for a terminal.
func WriteTable(out io.Writer, r Report) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if err := write(t, "table", r, "\t"); err != nil {
		return err
	}
	return t.Flush()
}

// Page returns the page of r.
func Page(r Report) (string, error) {
	var page strings.Builder
	err := write(&page, "page", r, " | ")
	return page.String(), err
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

// Data decodes the YAML that a benchmark has of what it measures.
func Data(text []byte, v any) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(v); err != nil {
		panic(err) // a mistake that every test would find
	}
}
