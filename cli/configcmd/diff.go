package configcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/human"
	"github.com/docket-export/docket/sinks"
)

// reloadReport is what a reload would do.
type reloadReport struct {
	// Against is the file with the configuration that took effect last; empty: none has on
	// this queue, and all is new.
	Against string            `json:"against,omitempty"`
	Changes []exporter.Change `json:"changes"`
	Deletes []deletion        `json:"deletes,omitempty"`
}

// deletion is what a sink deletes of its files when it starts.
type deletion struct {
	Sink  string `json:"sink"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
	Error string `json:"error,omitempty"` // why the files are not counted
}

// diff compares cfg with the configuration that took effect last on its queue.
func diff(cfg *exporter.Config, kinds exporter.Kinds) (*reloadReport, error) {
	r := &reloadReport{Against: exporter.StoredPath(cfg.Queue.Directory)}
	stored, err := exporter.LoadStored(cfg.Queue.Directory, kinds)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		empty := *cfg
		empty.Sources, empty.Sinks = nil, nil
		r.Against, stored = "", &exporter.Stored{Config: &empty}
	case err != nil:
		return nil, command.Failed(err)
	}
	if r.Changes, err = exporter.Changes(stored.Config, cfg); err != nil {
		return nil, command.Failed(err)
	}
	r.Deletes = deletions(r.Changes, cfg)
	return r, nil
}

// deletions are those of the sinks of cfg that changes start.
func deletions(changes []exporter.Change, cfg *exporter.Config) (list []deletion) {
	for _, s := range cfg.Sinks {
		starts := slices.ContainsFunc(changes, func(c exporter.Change) bool {
			return c.Part == "sink" && c.Name == s.Name && (c.Action == exporter.Add || c.Action == exporter.Modify)
		})
		deleter, ok := s.Config.(sinks.Deleter)
		if !starts || !ok {
			continue
		}
		files, bytes, err := deleter.Deletes()
		d := deletion{Sink: s.Name, Files: files, Bytes: bytes}
		if err != nil {
			d.Error = err.Error()
		}
		if err != nil || files > 0 {
			list = append(list, d)
		}
	}
	return list
}

func (d deletion) String() string {
	if d.Error != "" {
		return fmt.Sprintf("sink %s: cannot count the files that its retain deletes: %s", d.Sink, d.Error)
	}
	return fmt.Sprintf("delete %s (%s) of sink %s: beyond its retain", human.Count(uint64(d.Files), "finished file"), human.Size(d.Bytes), d.Sink)
}

// effects say what a change means, for the part and the action.
var effects = map[string]string{
	"source Change": "its producers receive their last acknowledgements and connect again",
	"source Remove": "its producers receive their last acknowledgements and cannot connect any more",
	"sink Add":      "the sink starts where from says, or continues at its stored position",
	"sink Change":   "the sink finishes its current batch, then continues with the new configuration",
	"sink Remove":   "the sink receives the records stored by then, and docket forgets it",
	"sink Retire":   "docket gives up the records that the sink does not have",
}

func (r *reloadReport) lines() (list []string) {
	if r.Against == "" {
		list = append(list, "diff: this queue has no stored configuration: every part is new")
	} else {
		list = append(list, "diff: against "+r.Against)
		list = append(list, changeLines(r.Changes)...)
	}
	for _, d := range r.Deletes {
		list = append(list, d.String())
	}
	return list
}

func changeLines(changes []exporter.Change) (list []string) {
	for _, c := range changes {
		text := strings.ToLower(string(c.Action)) + " " + strings.TrimSpace(c.Part+" "+c.Name)
		if len(c.Keys) > 0 {
			text += " (" + strings.Join(c.Keys, ", ") + ")"
		}
		if effect := effects[fmt.Sprintf("%s %s", c.Part, c.Action)]; effect != "" {
			text += ": " + effect
		} else if c.Action == exporter.Restart {
			text += ": takes effect after a restart"
		}
		list = append(list, text)
	}
	return list
}
