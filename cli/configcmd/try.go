package configcmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/lines"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/human"
	"github.com/docket-export/docket/sources"
)

// tryFlags say which records check is to try, and how.
type tryFlags struct {
	file   string // of the records; empty: there are none to try
	source string // as if they came from this one only
	output *command.Choice
}

func (f *tryFlags) check(config string) error {
	switch {
	case f.file == "" && f.source != "":
		return errors.New("--source needs --try FILE: name the file of records")
	case f.file == "-" && config == "-":
		return errors.New("the standard input cannot be both the configuration and the records: name a file")
	}
	return nil
}

// try says on w what would become of the records in the file, for every source of cfg
// or the one named. It fails when one would be refused, or meets a filter that cannot
// be evaluated.
func (f *tryFlags) try(stdin io.Reader, w io.Writer, cfg *exporter.Config) error {
	names, err := f.sources(cfg)
	if err != nil {
		return err
	}
	trial, err := exporter.NewTrial(cfg)
	if err != nil {
		return command.Failed(err)
	}
	in := stdin
	if f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return command.Failed(err)
		}
		defer file.Close() // read only
		in = file
	}
	t := tryout{trial: trial, sources: names, out: bufio.NewWriter(w), json: f.output.Value == "json"}
	if err := t.run(lines.NewReader(in)); err != nil {
		return command.Failed(err)
	}
	if t.wrong > 0 {
		return command.Failed(fmt.Errorf("%s: failed for %d of %s: refused, or a filter cannot be evaluated", f.file, t.wrong, human.Count(t.lines, "record")))
	}
	return nil
}

// sources returns the names of the sources to try.
func (f *tryFlags) sources(cfg *exporter.Config) (names []string, err error) {
	for _, s := range cfg.Sources {
		names = append(names, s.Name)
	}
	if f.source == "" {
		return names, nil
	}
	if !slices.Contains(names, f.source) {
		return nil, fmt.Errorf("source %q is not configured: choose one of %s", f.source, strings.Join(names, ", "))
	}
	return []string{f.source}, nil
}

// tryout tries the lines of a file.
type tryout struct {
	trial   *exporter.Trial
	sources []string
	out     *bufio.Writer
	json    bool
	lines   uint64
	wrong   int // lines that are refused or cannot be judged
}

func (t *tryout) run(in *lines.Reader) error {
	for {
		line, err := in.Next()
		if errors.Is(err, io.EOF) {
			return t.out.Flush()
		}
		if err != nil && !errors.Is(err, lines.ErrTooLong) {
			return fmt.Errorf("read records: %w", err)
		}
		t.lines++
		wrong := false
		for _, source := range t.sources {
			fate := t.trial.TooLarge()
			if err == nil {
				fate = t.trial.Line(source, line)
			}
			wrong = wrong || isWrong(fate)
			if err := t.write(in.Number, source, line, fate); err != nil {
				return err
			}
		}
		if wrong {
			t.wrong++
		}
	}
}

func isWrong(fate exporter.Fate) bool {
	return fate.Reason != "" || slices.ContainsFunc(fate.Sinks, func(s exporter.SinkFate) bool { return s.Err != nil })
}

func (t *tryout) write(number uint64, source string, line []byte, fate exporter.Fate) error {
	if t.json {
		e := json.NewEncoder(t.out)
		e.SetEscapeHTML(false)
		return e.Encode(fateToJSON(number, source, line, fate))
	}
	_, err := io.WriteString(t.out, fateText(number, source, line, fate))
	return err
}

// fateText is a line that says who takes the record, and one for what else there is to
// say of it.
func fateText(number uint64, source string, line []byte, fate exporter.Fate) string {
	head := fmt.Sprintf("line %d from %s: ", number, source)
	if fate.Reason != "" {
		return fmt.Sprintf("%srefused as %s: %s\n", head, fate.Reason, human.OneLine(fate.Detail))
	}
	var takes, not []string
	more := ""
	if !bytes.Equal(fate.Record, line) {
		more = fmt.Sprintf("  redacted: %s\n", fate.Record)
	}
	for _, s := range fate.Sinks {
		if s.Takes {
			takes = append(takes, s.Name)
		} else {
			not = append(not, s.Name)
		}
		if s.Err != nil {
			more += fmt.Sprintf("  %s: cannot evaluate when, so the record is %s: %v\n", s.Name, withheldOr(s.Takes), s.Err)
		}
	}
	text := "for no sink"
	if len(takes) > 0 {
		text = "for " + strings.Join(takes, ", ")
	}
	if len(not) > 0 {
		text += "; not for " + strings.Join(not, ", ")
	}
	return head + text + "\n" + more
}

// withheldOr is what onError makes of a record that cannot be judged.
func withheldOr(delivered bool) string {
	if delivered {
		return "delivered"
	}
	return "withheld"
}

// fateJSON is what becomes of a line, in JSON.
type fateJSON struct {
	Line     uint64          `json:"line"`
	Source   string          `json:"source"`
	Refused  *refusedJSON    `json:"refused,omitempty"`
	Redacted bool            `json:"redacted"`
	Record   json.RawMessage `json:"record,omitempty"` // as it is stored, but without the white space between its tokens
	Sinks    []sinkFateJSON  `json:"sinks,omitempty"`
}

type refusedJSON struct {
	Reason sources.Reason `json:"reason"`
	Detail string         `json:"detail"`
}

type sinkFateJSON struct {
	Name  string `json:"name"`
	Takes bool   `json:"takes"`
	Error string `json:"error,omitempty"` // of the filter
}

func fateToJSON(number uint64, source string, line []byte, fate exporter.Fate) fateJSON {
	j := fateJSON{Line: number, Source: source}
	if fate.Reason != "" {
		j.Refused = &refusedJSON{fate.Reason, fate.Detail}
		return j
	}
	j.Record, j.Redacted = fate.Record, !bytes.Equal(fate.Record, line)
	for _, s := range fate.Sinks {
		sink := sinkFateJSON{Name: s.Name, Takes: s.Takes}
		if s.Err != nil {
			sink.Error = s.Err.Error()
		}
		j.Sinks = append(j.Sinks, sink)
	}
	return j
}
