package queuecmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/internal/human"
)

func newQueueCheck(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check every file of a stopped queue",
		Long: `check reads every file of a queue and prints one finding a line, as FILE:OFFSET:
SEVERITY: what it means. It changes nothing and does not keep docket from
starting.

  damage   something is lost or unusable, and not handled yet: docket handles it
           when it reads there
  known    damage that is handled: its records are counted in the ledger, and
           its segment moves to quarantine/ instead of being removed
  note     harmless, such as a torn tail: a crash interrupted a write that was
           not acknowledged

check exits 1 when there is damage, otherwise 0.`,
		Example: `  docket queue check -f docket.yaml
  docket queue check --queue /tmp/copy-of-a-queue -o json`,
		Args: command.NoArgs,
	}
	flags := newQueueFlags(cmd, kinds)
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.with(func(o *inspect.Queue) error {
			console := terminal.NewConsole(cmd.ErrOrStderr())
			defer console.Follow(func() terminal.Work { return reading(o) })()
			return checkQueue(cmd.Context(), console.Beside(cmd.OutOrStdout()), o, output.Value == "json")
		})
	}
	return cmd
}

// reading is how far the pass over a queue is that checks it.
func reading(o *inspect.Queue) terminal.Work {
	done, total := o.Progress()
	return terminal.Work{What: "reading the queue", Done: done, Total: total}
}

// checkQueue says on w what is wrong with the queue. It fails when something is.
func checkQueue(ctx context.Context, w io.Writer, o *inspect.Queue, asJSON bool) error {
	count := map[inspect.Severity]uint64{}
	list := []any{}
	checked, err := o.Check(ctx, func(f inspect.Finding) error {
		count[f.Severity]++
		if asJSON {
			list = append(list, f.Document())
			return nil
		}
		_, err := fmt.Fprintln(w, human.OneLine(f.String()))
		return err
	})
	if err != nil {
		return err
	}
	damage := count[inspect.Damage]
	if asJSON {
		err = terminal.WriteJSON(w, checkedJSON{
			ID: o.ID(), Directory: o.Directory(), Sound: damage == 0,
			Segments: checked.Segments, Records: checked.Records, Findings: list,
		})
	} else if damage == 0 {
		_, err = fmt.Fprintf(w, "queue %s is sound: %s%s\n", o.Directory(), readText(checked), restText(count))
	}
	if err != nil || damage == 0 {
		return err
	}
	return fmt.Errorf("queue %s is damaged: findings: %d; %s; docket counts what is lost and delivers the rest", o.Directory(), damage, readText(checked))
}

// readText is what a check has read.
func readText(c inspect.Checked) string {
	return fmt.Sprintf("%s (%s) in %s read", human.Count(c.Records, "record"), human.Size(c.Bytes), human.Count(uint64(c.Segments), "segment"))
}

// restText counts what is not damage.
func restText(count map[inspect.Severity]uint64) (text string) {
	if n := count[inspect.Known]; n > 0 {
		text += fmt.Sprintf(", known damage: %d", n)
	}
	if n := count[inspect.Note]; n > 0 {
		text += fmt.Sprintf(", notes: %d", n)
	}
	return text
}

// checkedJSON is the form of check -o json.
type checkedJSON struct {
	ID        string `json:"id"`
	Directory string `json:"directory"`
	Sound     bool   `json:"sound"`
	Segments  int    `json:"segments"`
	Records   uint64 `json:"records"`
	Findings  []any  `json:"findings"`
}
