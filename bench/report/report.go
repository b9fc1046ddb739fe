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
	// Text is the template of the page, in Markdown, executed on the report. The function
	// table writes rows, the head first.
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

// WriteTable writes for a terminal what the page of r has in tables and lists.
func WriteTable(out io.Writer, r Report) error {
	page, err := Page(r)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	heading := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		row, isRow := strings.CutPrefix(line, "| ")
		switch {
		case strings.HasPrefix(line, "#"):
			heading = "\n" + strings.TrimLeft(line, "# ") + "\n"
		case isRow:
			fmt.Fprintf(w, "%s  %s\n", heading, strings.ReplaceAll(strings.TrimSuffix(row, " |"), " | ", "\t"))
			heading = ""
		case strings.HasPrefix(line, "- "):
			fmt.Fprintf(w, "%s%s\n", heading, line)
			heading = ""
		}
	}
	return w.Flush()
}

// Page returns the page of r.
func Page(r Report) (string, error) {
	t, err := template.New("").Funcs(template.FuncMap{"table": table}).Parse(r.Text())
	if err != nil {
		return "", err
	}
	var page strings.Builder
	err = t.Execute(&page, r)
	return page.String(), err
}

// table is a table in Markdown, whose first row is its head.
func table(rows [][]string) string {
	var b strings.Builder
	for i, cells := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
		}
	}
	return b.String()
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
