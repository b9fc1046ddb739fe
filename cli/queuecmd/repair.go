package queuecmd

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/internal/human"
)

func newQueueRepair(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Show repairs of a damaged, stopped queue, and apply them",
		Long: `repair finds the same damage as check and prints what it would do, one action a
line. It changes nothing without --apply.

With --apply, repair copies unreadable bytes to quarantine/ and counts their
records as lost at once, before any sink gets there. It removes no readable
record, and no unreadable one either.

docket does the same by itself whenever it meets damage, so you can run docket
without a repair.`,
		Example: `  docket queue repair -f docket.yaml
  docket queue repair -f docket.yaml --apply`,
		Args: command.NoArgs,
	}
	flags := newQueueFlags(cmd, kinds)
	apply := cmd.Flags().Bool("apply", false, "apply the repairs")
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		open := inspect.OpenToLook
		if *apply {
			open = inspect.Open
		}
		return flags.with(open, func(cfg exporter.QueueConfig, o *inspect.Queue) error {
			r := repair{o: o, cfg: cfg, w: cmd.OutOrStdout(), console: terminal.NewConsole(cmd.ErrOrStderr()), apply: *apply, json: output.Value == "json"}
			return r.run(cmd.Context())
		})
	}
	return cmd
}

// repair plans and does.
type repair struct {
	o       *inspect.Queue
	cfg     exporter.QueueConfig
	w       io.Writer
	console *terminal.Console
	apply   bool
	json    bool
}

func (r repair) run(ctx context.Context) error {
	plan, helpless, err := r.findings(ctx)
	if err != nil {
		return err
	}
	if !r.json {
		r.printPlan(plan, helpless)
	}
	if r.apply && len(plan) > 0 {
		reopen := func(ctx context.Context, spareBytes int64) error {
			return queue.Reopen(ctx, queue.Options{Directory: r.cfg.Directory, MaxBytes: int64(r.cfg.MaxBytes)}, spareBytes)
		}
		if err := r.o.Repair(ctx, plan, reopen); err != nil {
			return err
		}
		again, still, err := r.findings(ctx)
		if err != nil {
			return err
		}
		helpless = slices.Concat(again, still)
	}
	if r.json {
		err = terminal.WriteJSON(r.w, repairToJSON(r, plan, helpless))
	} else {
		err = r.printEnd(len(plan), len(helpless))
	}
	if err == nil && r.apply && len(helpless) > 0 {
		err = fmt.Errorf("queue %s: damage that remains: %d", r.cfg.Directory, len(helpless))
	}
	return err
}

// findings returns the damage that something can be done about, and the rest.
func (r repair) findings(ctx context.Context) (plan, helpless []inspect.Finding, err error) {
	defer r.console.Follow(func() terminal.Work { return reading(r.o) })()
	_, err = r.o.Check(ctx, func(f inspect.Finding) error {
		switch {
		case f.Repair != "":
			plan = append(plan, f)
		case f.Severity == inspect.Damage:
			helpless = append(helpless, f)
		}
		return nil
	})
	return plan, helpless, err
}

func (r repair) printPlan(plan, helpless []inspect.Finding) {
	for _, f := range plan {
		fmt.Fprintf(r.w, "%s: %s; repair: %s\n", f.Place(), human.OneLine(f.Text), f.Repair)
	}
	for _, f := range helpless {
		fmt.Fprintf(r.w, "%s: %s; no repair\n", f.Place(), human.OneLine(f.Text))
	}
}

func (r repair) printEnd(planned, helpless int) (err error) {
	switch {
	case planned == 0 && helpless == 0:
		_, err = fmt.Fprintf(r.w, "queue %s: nothing to repair\n", r.cfg.Directory)
	case planned > 0 && !r.apply:
		_, err = fmt.Fprintf(r.w, "queue %s: nothing was changed; actions for --apply: %d\n", r.cfg.Directory, planned)
	case planned > 0:
		_, err = fmt.Fprintf(r.w, "queue %s: actions done: %d\n", r.cfg.Directory, planned)
	}
	return err
}

// repairJSON is the form of repair -o json.
type repairJSON struct {
	ID        string `json:"id"`
	Directory string `json:"directory"`
	Applied   bool   `json:"applied"`
	Actions   []any  `json:"actions"`
	// Remaining is the damage that is there after the actions.
	Remaining []any `json:"remaining"`
}

func repairToJSON(r repair, plan, helpless []inspect.Finding) repairJSON {
	j := repairJSON{
		ID: r.o.ID(), Directory: r.cfg.Directory, Applied: r.apply && len(plan) > 0,
		Actions: []any{}, Remaining: []any{},
	}
	for _, f := range plan {
		j.Actions = append(j.Actions, f.Document())
	}
	for _, f := range helpless {
		j.Remaining = append(j.Remaining, f.Document())
	}
	return j
}
