package configcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
)

// reloadReport is what a reload would do.
type reloadReport struct {
	// Against is the file with the configuration that took effect last; empty: none has on
	// this queue, and all is new.
	Against string            `json:"against,omitempty"`
	Changes []exporter.Change `json:"changes"`
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
	r.Changes, err = exporter.Changes(stored.Config, cfg)
	return r, command.Failed(err)
}

// effects say what a change means, for the part and the action.
var effects = map[string]string{
	"source Change": "its producers are told what is durable, and connect anew",
	"source Remove": "its producers are told what is durable, and cannot connect any more",
	"sink Add":      "it begins where from says, or where it was",
	"sink Change":   "the batch under way is decided, and it goes on behind that",
	"sink Remove":   "it gets the records that are stored by then, and is forgotten",
	"sink Retire":   "what it has not got is let go",
}

func (r *reloadReport) lines() []string {
	if r.Against == "" {
		return []string{"diff: no configuration is stored for this queue: all of it is new"}
	}
	list := []string{"diff: against " + r.Against}
	for _, c := range r.Changes {
		text := strings.ToLower(string(c.Action)) + " " + strings.TrimSpace(c.Part+" "+c.Name)
		if len(c.Keys) > 0 {
			text += " (" + strings.Join(c.Keys, ", ") + ")"
		}
		if effect := effects[fmt.Sprintf("%s %s", c.Part, c.Action)]; effect != "" {
			text += ": " + effect
		} else if c.Action == exporter.Restart {
			text += ": in force after a restart"
		}
		list = append(list, text)
	}
	return list
}
