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
		Short: "Read all of a queue at rest and say what is damaged",
		Long: `check reads every file of a queue and says what is not as it should be, one finding a
line, as FILE:OFFSET: SEVERITY: what it means. It changes nothing, keeps no docket from
starting, and ends when one starts.

  damage   something is lost or cannot be used, and nobody has dealt with it yet:
           docket does so when it meets it, docket queue repair at once
  known    damage of which quarantine/ has the bytes and the books the count
  note     worth knowing; a torn tail is one: a crash interrupted a write that no
           producer was told about, which is not damage

It ends with 1 when there is damage, with 0 otherwise.`,
		Example: `  docket queue check -f docket.yaml
  docket queue check --queue /tmp/copy-of-a-queue -o json`,
		Args: command.NoArgs,
	}
	flags := newQueueFlags(cmd, kinds)
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.with(inspect.OpenToLook, func(cfg exporter.QueueConfig, o *inspect.Queue) error {
			console := terminal.NewConsole(cmd.ErrOrStderr())
			defer console.Follow(func() terminal.Work { return reading(o) })()
			return checkQueue(cmd.Context(), console.Beside(cmd.OutOrStdout()), o, cfg.Directory, output.Value == "json")
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
func checkQueue(ctx context.Context, w io.Writer, o *inspect.Queue, dir string, asJSON bool) error {
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
			ID: o.ID(), Directory: dir, Sound: damage == 0,
			Segments: checked.Segments, Records: checked.Records, Findings: list,
		})
	} else if damage == 0 {
		_, err = fmt.Fprintf(w, "queue %s is sound: %s%s\n", dir, readText(checked), restText(count))
	}
	if err != nil || damage == 0 {
		return err
	}
	return fmt.Errorf("queue %s is damaged: findings: %d; %s; see what can be done with: docket queue repair", dir, damage, readText(checked))
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
