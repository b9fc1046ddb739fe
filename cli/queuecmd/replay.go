package queuecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/human"
	"github.com/docket-export/docket/sinks"
)

// NewReplay returns docket replay.
func NewReplay(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay --sink S --from SEQ|TIME",
		Short: "Redeliver records to a sink",
		Long: `replay sets a sink back to an earlier record of a queue at rest. When docket runs
again it delivers from there, each record with the id that it had before. It can go
back as far as the queue keeps records, which queue.retain is for, and it never
skips one.

--from is the number of a record, a time, or how long ago: the first record that was
received then or later.`,
		Example: `  docket replay -f docket.yaml --sink siem --from 2h
  docket replay -f docket.yaml --sink siem --from 2026-01-05T10:00:00Z --dry-run
  docket replay -f docket.yaml --sink siem --from 1000`,
		Args: command.NoArgs,
	}
	flags := command.ConfigFlags{Kinds: kinds}
	flags.Add(cmd)
	var sink, from string
	cmd.Flags().StringVar(&sink, "sink", "", "name of the sink")
	cmd.Flags().StringVar(&from, "from", "", "number of a record, time (RFC 3339) or duration such as 2h")
	dryRun := cmd.Flags().Bool("dry-run", false, "say what would be delivered again, and change nothing")
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if sink == "" || from == "" {
			return errors.New("which sink, and from where on? name them with --sink and --from")
		}
		start, err := parseReplayFrom(from, time.Now())
		if err != nil {
			return err
		}
		cfg, err := flags.Load()
		if err != nil {
			return err
		}
		if err := checkReplaySink(cfg, sink); err != nil {
			return err
		}
		return withQueue(cfg.Queue.Directory, func(o *inspect.Queue) error {
			letters, err := deadletter.Open(filepath.Join(cfg.Queue.Directory, exporter.DeadLettersDirectory, sink), deadletter.Options{ReadOnly: true})
			if err != nil {
				return err
			}
			defer func() { _ = letters.Close() }() // it was only read
			r, err := planReplay(cmd.Context(), o, sink, start, letters)
			if err != nil {
				return err
			}
			if !*dryRun {
				if err := o.Replay(r); err != nil {
					return err
				}
			}
			return writeReplay(cmd.OutOrStdout(), r, !*dryRun, output.Value == "json")
		})
	}
	return cmd
}

// replayFrom is where a replay begins: at a record, or at a time when seq is 0.
type replayFrom struct {
	seq uint64
	at  time.Time
}

// parseReplayFrom reads --from.
func parseReplayFrom(text string, now time.Time) (replayFrom, error) {
	if seq, err := strconv.ParseUint(text, 10, 64); err == nil && seq > 0 {
		return replayFrom{seq: seq}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return replayFrom{at: at}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 && strings.Trim(text, "0123456789") != "" {
		return replayFrom{at: now.Add(-ago)}, nil
	}
	return replayFrom{}, fmt.Errorf("--from %q is neither the number of a record, nor a time such as 2026-01-05T10:00:00Z, nor a duration such as 2h (a day is 24h)", text)
}

// checkReplaySink refuses a sink that would not deliver what it is set back to.
func checkReplaySink(cfg *exporter.Config, name string) error {
	var names []string
	for _, s := range cfg.Sinks {
		names = append(names, s.Name)
		if s.Name != name {
			continue
		}
		if s.Retire {
			return fmt.Errorf("sink %s is to be retired: nothing is delivered to it any more", name)
		}
		if c, ok := s.Config.(sinks.Replayable); ok {
			if err := c.Replayable(); err != nil {
				return command.Failed(fmt.Errorf("sink %s %w", name, err))
			}
		}
		return nil
	}
	return fmt.Errorf("no sink %q is configured: there are %s", name, strings.Join(names, ", "))
}

func planReplay(ctx context.Context, o *inspect.Queue, sink string, from replayFrom, letters *deadletter.Store) (inspect.Replay, error) {
	if from.seq == 0 {
		var err error
		if from.seq, err = o.ReplayAt(ctx, sink, from.at); err != nil {
			return inspect.Replay{}, err
		}
	}
	return o.PlanReplay(ctx, sink, from.seq, func(r segment.SeqRange) (kept, redriving uint64) { return letters.Counts(r.From, r.To) })
}

// replayJSON is the form of replay -o json.
type replayJSON struct {
	Sink     string     `json:"sink"`
	FirstSeq uint64     `json:"firstSeq"`
	LastSeq  uint64     `json:"lastSeq"`
	Records  uint64     `json:"records"`
	Lost     uint64     `json:"lost"`
	Oldest   *time.Time `json:"oldest,omitempty"`
	Newest   *time.Time `json:"newest,omitempty"`
	Done     bool       `json:"done"` // false after a dry run
}

func writeReplay(w io.Writer, r inspect.Replay, done, asJSON bool) error {
	if asJSON {
		j := replayJSON{
			Sink: r.Sink, FirstSeq: r.Records.From, LastSeq: r.Records.To - 1, Records: r.Count(), Lost: r.Lost, Done: done,
		}
		if !r.Oldest.IsZero() {
			j.Oldest, j.Newest = &r.Oldest, &r.Newest
		}
		return terminal.WriteJSON(w, j)
	}
	lost := ""
	if r.Lost > 0 {
		lost = fmt.Sprintf("; %d between them are lost to damage", r.Lost)
	}
	end := "sink " + r.Sink + " is set back: it gets them again when docket runs"
	if !done {
		end = "nothing was changed: this was a dry run"
	}
	_, err := fmt.Fprintf(w, "%s again for sink %s: %d to %d, received %s to %s%s\n%s\n",
		human.Count(r.Count(), "record"), r.Sink, r.Records.From, r.Records.To-1, human.Time(r.Oldest), human.Time(r.Newest), lost, end)
	return err
}
