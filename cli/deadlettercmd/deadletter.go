// Package deadlettercmd has the commands on dead letters: docket deadletter.
package deadlettercmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/letterbox"
	"github.com/docket-export/docket/exporter/queue/inspect"
)

// New returns docket deadletter.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deadletter",
		Short: "List, redrive or purge dead letters",
		Long: `deadletter handles the records that a sink's destination rejected for good.
docket keeps each with the destination's answer until you redrive or purge it.

The command asks the docket that runs on the queue, over the socket admin.sock
in the queue's directory. While no docket runs, it works on the files.`,
		Example: `  docket deadletter ls -f docket.yaml                 how many each sink has
  docket deadletter ls -f docket.yaml --sink siem
  docket deadletter show -f docket.yaml --sink siem 17
  docket deadletter redrive -f docket.yaml --sink siem --all`,
	}
	command.Group(cmd, newDeadLetterLs(kinds), newDeadLetterShow(kinds), newDeadLetterRedrive(kinds), newDeadLetterPurge(kinds))
	return cmd
}

// letterFlags say which dead letters a command is about.
type letterFlags struct {
	command.AdminFlags
	sink string
	all  bool
}

func newLetterFlags(cmd *cobra.Command, kinds exporter.Kinds) *letterFlags {
	f := &letterFlags{AdminFlags: command.AdminFlags{ConfigFlags: command.ConfigFlags{Kinds: kinds}}}
	f.Add(cmd)
	cmd.Flags().StringVar(&f.sink, "sink", "", "name of the sink")
	return f
}

func (f *letterFlags) addAll(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.all, "all", false, "every dead letter of the sink")
}

// checkIDs refuses what names no letters.
func (f *letterFlags) checkIDs(ids []string) error {
	switch {
	case f.sink == "":
		return errors.New("missing --sink NAME: docket deadletter ls lists the sinks")
	case f.all && len(ids) > 0:
		return errors.New("--all and IDs exclude each other: give one of them")
	case !f.all && len(ids) == 0:
		return errors.New("missing ID: give IDs from docket deadletter ls --sink NAME, or --all")
	}
	return nil
}

// with calls do with the dead letters that the flags name. A sink that is named must
// be one of them. An error of do is one of running.
func (f *letterFlags) with(cmd *cobra.Command, do func(letterbox.Box) error) error {
	box, err := f.open(cmd.Context(), command.NewLog(cmd.ErrOrStderr(), "text", "info"))
	if err != nil {
		return err
	}
	if f.sink != "" {
		if err := checkLetterSink(cmd.Context(), box, f.sink); err != nil {
			return errors.Join(err, box.Close())
		}
	}
	return command.Failed(errors.Join(do(box), box.Close()))
}

// open finds the docket that runs on the queue or, when there is none, the queue.
func (f *letterFlags) open(ctx context.Context, log *slog.Logger) (letterbox.Box, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	if f.Admin != "" {
		client, err := f.Client()
		if err != nil {
			return nil, err
		}
		return letterbox.Online(client), nil
	}
	cfg, err := f.Load()
	if err != nil {
		return nil, err
	}
	box, err := letterbox.Open(ctx, cfg, log)
	if errors.Is(err, inspect.ErrNoQueue) {
		return nil, command.Misconfigured("%w", err)
	}
	return box, command.Failed(err)
}

// checkLetterSink refuses a sink that there is not, and names those that there are.
func checkLetterSink(ctx context.Context, box letterbox.Box, sink string) error {
	counts, err := box.Counts(ctx)
	if err != nil {
		return command.Failed(err)
	}
	var names []string
	for _, c := range counts {
		if c.Sink == sink {
			return nil
		}
		names = append(names, c.Sink)
	}
	if len(names) == 0 {
		return fmt.Errorf("no sink %q: there are no sinks", sink)
	}
	return fmt.Errorf("no sink %q: choose one of %s%s", sink, strings.Join(names, ", "), box.Hint(sink))
}

func newDeadLetterLs(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List dead letters",
		Long: `ls lists the dead letters of a sink, one a line: the number of the record, its
state, the number of attempts and the destination's answer. The other commands
take this number as ID. The state is kept, or redriving for a record that waits
to be sent again. Without --sink, ls shows how many dead letters each sink has.`,
		Example: `  docket deadletter ls -f docket.yaml
  docket deadletter ls -f docket.yaml --sink siem
  docket deadletter ls -f docket.yaml --sink siem -o json | jq -r '.[].answer' | sort | uniq -c`,
		Args: command.NoArgs,
	}
	flags := newLetterFlags(cmd, kinds)
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.with(cmd, func(box letterbox.Box) error {
			asJSON, w := output.Value == "json", cmd.OutOrStdout()
			if flags.sink == "" {
				counts, err := box.Counts(cmd.Context())
				if err != nil {
					return err
				}
				return writeLetterCounts(w, counts, asJSON)
			}
			out := newLetterList(w, flags.sink, asJSON)
			if err := box.List(cmd.Context(), flags.sink, out.add); err != nil {
				return err
			}
			return out.end()
		})
	}
	return cmd
}

func newDeadLetterShow(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show --sink S ID...|--all",
		Short: "Show dead letters with their records",
		Long: `show prints everything that docket knows of dead letters. The record comes last,
byte for byte as it was sent. An ID is the id of the record, or its number
alone.

With -o json, one ID gives an object whose member "record" is the record.
Several IDs, or --all, give an array of such objects.`,
		Example: `  docket deadletter show -f docket.yaml --sink siem 17
  docket deadletter show -f docket.yaml --sink siem 17 -o json | jq .record`,
		Args: cobra.ArbitraryArgs,
	}
	flags := newLetterFlags(cmd, kinds)
	flags.addAll(cmd)
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if err := flags.checkIDs(ids); err != nil {
			return err
		}
		return flags.with(cmd, func(box letterbox.Box) error {
			if flags.all {
				err := box.List(cmd.Context(), flags.sink, func(s deadletter.Summary) error {
					ids = append(ids, s.ID)
					return nil
				})
				if err != nil {
					return err
				}
			}
			out := letterWriter{w: cmd.OutOrStdout(), json: output.Value == "json", many: flags.all || len(ids) > 1}
			for _, id := range ids {
				s, record, err := box.Show(cmd.Context(), flags.sink, id)
				if err == nil {
					err = out.add(s, record)
				}
				if err != nil {
					return err
				}
			}
			return out.end()
		})
	}
	return cmd
}

func newDeadLetterRedrive(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redrive --sink S ID...|--all",
		Short: "Send dead letters again",
		Long: `redrive sends dead letters again, each with its old id. A running docket sends
them at once; a stopped one sends them when it starts. A record that is rejected
again becomes a dead letter again.

redrive exits 1 when an ID has no dead letter. It sends the others all the same.`,
		Example: `  docket deadletter redrive -f docket.yaml --sink siem 17 18
  docket deadletter redrive -f docket.yaml --sink siem --all`,
		Args: cobra.ArbitraryArgs,
	}
	flags := newLetterFlags(cmd, kinds)
	flags.addAll(cmd)
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if err := flags.checkIDs(ids); err != nil {
			return err
		}
		return flags.with(cmd, func(box letterbox.Box) error {
			return changeLetters(cmd, box, letterbox.Redrive, flags, ids, output.Value == "json")
		})
	}
	return cmd
}

func newDeadLetterPurge(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "purge --sink S ID...|--all",
		Short: "Delete dead letters",
		Long: `purge deletes dead letters for good. They count as dropped.

With --all, purge asks for confirmation on a terminal. Elsewhere --all needs
--yes, so that no script empties a sink by mistake. purge exits 1 when an ID has
no dead letter. It deletes the others all the same.`,
		Example: `  docket deadletter purge -f docket.yaml --sink siem 17
  docket deadletter purge -f docket.yaml --sink siem --all --yes`,
		Args: cobra.ArbitraryArgs,
	}
	flags := newLetterFlags(cmd, kinds)
	flags.addAll(cmd)
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if err := flags.checkIDs(ids); err != nil {
			return err
		}
		asks := flags.all && !*yes
		if asks && !terminal.IsTerminal(cmd.InOrStdin()) {
			return errors.New("purge --all deletes every dead letter for good: without a terminal, add --yes to confirm")
		}
		return flags.with(cmd, func(box letterbox.Box) error {
			if asks {
				if err := confirmPurge(cmd.Context(), box, flags.sink, cmd.InOrStdin(), cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			return changeLetters(cmd, box, letterbox.Purge, flags, ids, output.Value == "json")
		})
	}
	return cmd
}

// changeLetters redrives or purges, and says what came of it.
func changeLetters(cmd *cobra.Command, box letterbox.Box, what letterbox.Change, flags *letterFlags, ids []string, asJSON bool) error {
	changed, err := box.Change(cmd.Context(), flags.sink, what, deadletter.Change{IDs: ids, All: flags.all})
	if err != nil {
		return err
	}
	if err := writeLettersChanged(cmd.OutOrStdout(), what, flags.sink, changed, len(ids), box.Running(), asJSON); err != nil {
		return err
	}
	if len(changed.Unknown) > 0 {
		return fmt.Errorf("sink %s has no dead letter %s", flags.sink, strings.Join(changed.Unknown, ", "))
	}
	return nil
}
