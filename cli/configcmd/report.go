package configcmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/hostcheck"
	"github.com/docket-export/docket/internal/memlimit"
)

// report is what check finds out about a configuration file.
type report struct {
	File     string        `json:"file"`
	OK       bool          `json:"ok"` // the exit code is 0
	Problems []problem     `json:"problems"`
	Warnings []string      `json:"warnings"`
	Memory   *memory       `json:"memory,omitempty"`
	Sinks    []sinkTrial   `json:"sinks,omitempty"`
	Reload   *reloadReport `json:"reload,omitempty"`

	wrong *command.ConfigError // in text; nil without problems
}

// problem is a mistake in the file.
type problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Path string `json:"path,omitempty"`
	Text string `json:"text"`
}

// memory is what docket takes at most with the configuration.
type memory struct {
	Bytes int64                 `json:"bytes"`
	Parts []exporter.MemoryPart `json:"parts,omitempty"`
}

// sinkTrial is what became of the trial of a sink.
type sinkTrial struct {
	Name     string     `json:"name"`
	State    trialState `json:"state"`
	Text     string     `json:"text"`
	Warnings []string   `json:"warnings,omitempty"`
}

type trialState string

const (
	reached  trialState = "Reached"
	failed   trialState = "Failed"
	notTried trialState = "NotTried"
)

// reportOf returns the report about file, which could be loaded with err. An error that is
// not about its content is returned.
func reportOf(file string, err error) (*report, error) {
	r := &report{File: file, OK: err == nil, Problems: []problem{}, Warnings: []string{}}
	if err == nil {
		return r, nil
	}
	wrong, ok := errors.AsType[*command.ConfigError](err)
	if !ok || wrong.Err != nil {
		return nil, err
	}
	r.wrong = wrong
	for _, p := range wrong.Problems {
		r.Problems = append(r.Problems, problem{File: file, Line: p.Line, Path: p.Path, Text: p.Text})
	}
	return r, nil
}

// exporterReport is the report about a configuration of kind Exporter.
func exporterReport(file string, cfg *exporter.Config, err error) (*report, error) {
	r, err := reportOf(file, err)
	if err != nil || !r.OK {
		return r, err
	}
	parts := cfg.Memory()
	r.Warnings = append(r.Warnings, hostcheck.Warnings(cfg)...)
	r.Memory = &memory{Bytes: exporter.MemoryCeiling(parts), Parts: parts}
	return r, nil
}

// tapReport is the report about a configuration of kind Tap.
func tapReport(file string, files []config.FileUse, ceiling int64, err error) (*report, error) {
	r, err := reportOf(file, err)
	if err != nil || !r.OK {
		return r, err
	}
	r.Warnings = append(r.Warnings, hostcheck.SecretWarnings(files)...)
	r.Memory = &memory{Bytes: ceiling}
	return r, nil
}

// write writes the report to w and returns the error that check ends with.
func (r *report) write(w io.Writer, output string) error {
	failures := slices.DeleteFunc(slices.Clone(r.Sinks), func(t sinkTrial) bool { return t.State != failed })
	r.OK = r.OK && len(failures) == 0
	var err error
	if output == "json" {
		err = terminal.WriteJSON(w, r)
	} else {
		_, err = io.WriteString(w, r.text())
	}
	switch {
	case err != nil:
		return command.Failed(err)
	case len(r.Problems) > 0:
		return command.Misconfigured("%s: problems: %d", r.File, len(r.Problems))
	case len(failures) > 0:
		return command.Failed(fmt.Errorf("%s: cannot reach %d of %d sinks", r.File, len(failures), len(r.Sinks)))
	}
	return nil
}

func (r *report) text() string {
	if r.wrong != nil {
		return r.wrong.Error() + "\n"
	}
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, r.File+": "+format+"\n", args...) }
	for _, warning := range r.Warnings {
		say("warning: %s", warning)
	}
	say("memory: %s", r.Memory)
	say("ok")
	for _, s := range r.Sinks {
		say("sink %s: %s", s.Name, s.Text)
		for _, warning := range s.Warnings {
			fmt.Fprintf(&b, "  warning: %s\n", warning)
		}
	}
	if r.Reload != nil {
		for _, line := range r.Reload.lines() {
			say("%s", line)
		}
	}
	return b.String()
}

// String says what docket has in memory at most.
func (m *memory) String() string {
	text := "stays below " + memlimit.Mebibytes(m.Bytes)
	if len(m.Parts) == 0 {
		return text
	}
	words := make([]string, len(m.Parts))
	for i, p := range m.Parts {
		words[i] = p.Name + " " + memlimit.Mebibytes(p.Bytes)
	}
	return text + " (" + strings.Join(words, ", ") + ")"
}
