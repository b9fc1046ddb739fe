// Package deadlettercmd has the commands on dead letters: docket deadletter.
package deadlettercmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/deadletter"
)

// New returns docket deadletter.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deadletter",
		Short: "List, redrive or purge dead letters",
		Long: `deadletter handles the records that a sink's destination rejected for good.
docket keeps each with the destination's answer until you redrive or purge it.

The command asks the docket that runs on the queue, over the socket admin.sock
in the queue's directory. Start docket first if it is stopped.`,
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
func (f *letterFlags) with(cmd *cobra.Command, do func(*adminclient.Client) error) error {
	client, err := f.Client()
	if err != nil {
		return err
	}
	if f.sink != "" {
		counts, err := client.LetterCounts(cmd.Context())
		if err == nil {
			err = checkLetterSink(counts, f.sink)
		} else {
			err = command.Failed(err)
		}
		if err != nil {
			return err
		}
	}
	return command.Failed(do(client))
}

// checkLetterSink refuses a sink that there is not, and names those that there are.
func checkLetterSink(counts []deadletter.Count, sink string) error {
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
	return fmt.Errorf("no sink %q is running: choose one of %s, or add the sink to the configuration again", sink, strings.Join(names, ", "))
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
		return flags.with(cmd, func(client *adminclient.Client) error {
			asJSON, w := output.Value == "json", cmd.OutOrStdout()
			if flags.sink == "" {
				counts, err := client.LetterCounts(cmd.Context())
				if err != nil {
					return err
				}
				return writeLetterCounts(w, counts, asJSON)
			}
			out := newLetterList(w, flags.sink, asJSON)
			if err := client.ListLetters(cmd.Context(), flags.sink, out.add); err != nil {
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
		return flags.with(cmd, func(client *adminclient.Client) error {
			if flags.all {
				err := client.ListLetters(cmd.Context(), flags.sink, func(s deadletter.Summary) error {
					ids = append(ids, s.ID)
					return nil
				})
				if err != nil {
					return err
				}
			}
			out := letterWriter{w: cmd.OutOrStdout(), json: output.Value == "json", many: flags.all || len(ids) > 1}
			for _, id := range ids {
				s, record, err := client.ShowLetter(cmd.Context(), flags.sink, id)
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
		Long: `redrive sends dead letters again, each with its old id. A record that is rejected
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
		return flags.with(cmd, func(client *adminclient.Client) error {
			return changeLetters(cmd, client, adminclient.Redrive, flags, ids, output.Value == "json")
		})
	}
	return cmd
}

func newDeadLetterPurge(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "purge --sink S ID...|--all",
		Short: "Delete dead letters",
		Long: `purge deletes dead letters for good. Their records still count as dead-lettered.

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
		return flags.with(cmd, func(client *adminclient.Client) error {
			if asks {
				if err := confirmPurge(cmd.Context(), client.LetterCounts, flags.sink, cmd.InOrStdin(), cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			return changeLetters(cmd, client, adminclient.Purge, flags, ids, output.Value == "json")
		})
	}
	return cmd
}

// changeLetters redrives or purges, and says what came of it.
func changeLetters(cmd *cobra.Command, client *adminclient.Client, what adminclient.LetterChange, flags *letterFlags, ids []string, asJSON bool) error {
	changed, err := client.ChangeLetters(cmd.Context(), flags.sink, what, deadletter.Change{IDs: ids, All: flags.all})
	if err != nil {
		return err
	}
	if err := writeLettersChanged(cmd.OutOrStdout(), what, flags.sink, changed, len(ids), asJSON); err != nil {
		return err
	}
	if len(changed.Unknown) > 0 {
		return fmt.Errorf("sink %s has no dead letter %s", flags.sink, strings.Join(changed.Unknown, ", "))
	}
	return nil
}
