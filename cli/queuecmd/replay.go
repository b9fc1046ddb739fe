package queuecmd

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/internal/human"
)

// NewReplay returns docket replay.
func NewReplay(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay --sink S --from SEQ|TIME",
		Short: "Redeliver records to a sink",
		Long: `replay sets a sink back to an earlier record, and docket delivers from there
again at once. Each record keeps its id. Start docket first if it is stopped.

replay goes back as far as the queue keeps records (queue.retain) and never
skips a record. A replay from the sink's own position redelivers nothing: use it
to continue a sink in state PositionAhead there.

docket first lets the current batch end, for at most ten seconds, and
then opens the sink again. Other sinks are not interrupted.

--from is the number of a record, a time, or how long ago. A time selects the
first record that was received then or later.`,
		Example: `  docket replay -f docket.yaml --sink siem --from 2h
  docket replay -f docket.yaml --sink siem --from 2026-01-05T10:00:00Z --dry-run
  docket replay -f docket.yaml --sink siem --from 1000`,
		Args: command.NoArgs,
	}
	flags := command.AdminFlags{ConfigFlags: command.ConfigFlags{Kinds: kinds}}
	flags.Add(cmd)
	var sink, from string
	cmd.Flags().StringVar(&sink, "sink", "", "name of the sink")
	cmd.Flags().StringVar(&from, "from", "", "number of a record, time (RFC 3339) or duration such as 2h")
	dryRun := cmd.Flags().Bool("dry-run", false, "show what would be redelivered, and change nothing")
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if sink == "" || from == "" {
			return errors.New("missing --sink or --from: name the sink and where to start")
		}
		start, err := parseReplayFrom(from, time.Now())
		if err != nil {
			return err
		}
		client, err := flags.Client()
		if err != nil {
			return err
		}
		var d inspect.ReplayDocument
		err = client.PostJSON(cmd.Context(), "/sinks"+adminclient.Path(sink, "replay"), exporter.ReplayRequest{ReplayFrom: start, DryRun: *dryRun}, &d)
		if err != nil {
			return command.Failed(err)
		}
		if output.Value == "json" {
			return command.Failed(terminal.WriteJSON(cmd.OutOrStdout(), d))
		}
		return command.Failed(writeReplay(cmd.OutOrStdout(), d))
	}
	return cmd
}

// parseReplayFrom reads --from.
func parseReplayFrom(text string, now time.Time) (inspect.ReplayFrom, error) {
	if seq, err := strconv.ParseUint(text, 10, 64); err == nil && seq > 0 {
		return inspect.ReplayFrom{Seq: seq}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return inspect.ReplayFrom{Time: at}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 && strings.Trim(text, "0123456789") != "" {
		return inspect.ReplayFrom{Time: now.Add(-ago)}, nil
	}
	return inspect.ReplayFrom{}, fmt.Errorf("--from %q is not valid: give the number of a record, a time such as 2026-01-05T10:00:00Z, or a duration such as 2h (a day is 24h)", text)
}

// writeReplay shows d as text.
func writeReplay(w io.Writer, d inspect.ReplayDocument) error {
	if d.Records == 0 && d.Lost == 0 {
		end := "sink " + d.Sink + " continues with this record, whatever position its destination has"
		if !d.Done {
			end = "nothing was changed: this was a dry run"
		}
		_, err := fmt.Fprintf(w, "nothing to redeliver to sink %s: its position is record %d\n%s\n", d.Sink, d.FirstSeq, end)
		return err
	}
	lost := ""
	if d.Lost > 0 {
		lost = fmt.Sprintf("; lost to damage in this range: %d", d.Lost)
	}
	end := "sink " + d.Sink + " is set back: docket redelivers now"
	if !d.Done {
		end = "nothing was changed: this was a dry run"
	}
	var oldest, newest time.Time
	if d.Oldest != nil && d.Newest != nil {
		oldest, newest = *d.Oldest, *d.Newest
	}
	_, err := fmt.Fprintf(w, "%s to redeliver to sink %s: %d to %d, received %s to %s%s\n%s\n",
		human.Count(d.Records, "record"), d.Sink, d.FirstSeq, d.LastSeq, human.Time(oldest), human.Time(newest), lost, end)
	return err
}
