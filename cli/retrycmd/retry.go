// Package retrycmd has the command that has a sink try now: docket retry.
package retrycmd

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/internal/human"
)

// New returns docket retry.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry SINK",
		Short: "Retry a failing sink now",
		Long: `retry makes a failing sink of the running docket try now instead of after its
pause, and prints the result. Use it when you have repaired a destination and do
not want to wait. retry exits 1 when the attempt fails.`,
		Example: `  docket retry siem -f docket.yaml
  docket retry siem -f docket.yaml -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("missing argument SINK: docket status lists the sinks")
			}
			return nil
		},
	}
	flags := command.AdminFlags{ConfigFlags: command.ConfigFlags{Kinds: kinds}}
	flags.Add(cmd)
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := flags.Client()
		if err != nil {
			return err
		}
		var a exporter.RetryAnswer
		if err := client.PostJSON(cmd.Context(), "/sinks"+adminclient.Path(args[0], "retry"), struct{}{}, &a); err != nil {
			return command.Failed(err)
		}
		if output.Value == "json" {
			err = terminal.WriteJSON(cmd.OutOrStdout(), a)
		} else {
			err = write(cmd.OutOrStdout(), a)
		}
		if err == nil && a.Sink.Attempts > 0 {
			err = fmt.Errorf("sink %s still fails", a.Sink.Name)
		}
		return command.Failed(err)
	}
	return cmd
}

// write shows a as text.
func write(w io.Writer, a exporter.RetryAnswer) error {
	s := a.Sink
	text := "works"
	if s.Attempts > 0 {
		text = fmt.Sprintf("%s: %s: %s", s.State, s.Reason, human.OneLine(s.LastError))
	}
	switch {
	case s.NextAttempt != nil:
		text += fmt.Sprintf("; the next attempt is in %s", human.Duration(time.Until(*s.NextAttempt)))
	case s.Attempts > 0:
		text += "; an attempt is under way"
	case !a.Waited:
		text += ": nothing to retry"
	default:
		text += " again"
	}
	_, err := fmt.Fprintf(w, "sink %s %s\n", s.Name, text)
	return err
}
