// Package statuscmd has the command that asks a running docket how it is: docket status.
package statuscmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
)

// statusInterval is how often --watch asks: fast enough to see a sink recover,
// slow enough to read.
const statusInterval = time.Second

// statusTimeout bounds one question, which docket answers from memory.
const statusTimeout = 5 * time.Second

// New returns docket status.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show sinks, queue and ledger of the running docket",
		Long: `status shows the state of a running docket's sinks, queue and sources, and the
account of every line that it has received. It asks over the socket admin.sock
in the queue's directory, or over the admin address.

--check exits 1, and says why, when something is in state Error, when the books
do not balance, or when no docket runs. Exit code 0 does not speak of Degraded,
dead letters, refused lines, lag or a full queue.`,
		Example: `  docket status                    the docket that runs without a configuration file
  docket status -f docket.yaml     the one that runs with this file
  docket status --watch
  docket status --check            exit code 1 when something is in Error
  docket status -o json            the document of /status, byte for byte`,
		Args: command.NoArgs,
	}
	flags := command.AdminFlags{ConfigFlags: command.ConfigFlags{Kinds: kinds}}
	flags.Add(cmd)
	flags.AddAddress(cmd)
	var watch bool
	var s statusCommand
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show the status again each second, until Ctrl-C")
	cmd.Flags().BoolVar(&s.check, "check", false, "exit 1 when something is in Error or the books do not balance")
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if watch && s.check {
			return errors.New("--watch and --check exclude each other: --check ends with an exit code")
		}
		client, err := flags.Client()
		if err != nil {
			return err
		}
		s.client, s.json, s.timeout = client, output.Value == "json", statusTimeout
		if watch {
			return command.Failed(s.watch(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), statusInterval))
		}
		return command.Failed(s.print(cmd.Context(), cmd.OutOrStdout()))
	}
	return cmd
}

// statusCommand shows the status of one exporter.
type statusCommand struct {
	client  *adminclient.Client
	json    bool
	check   bool
	timeout time.Duration
}

// print shows the status once. Its error lists what an operator must act on, where that is
// checked.
func (s statusCommand) print(ctx context.Context, w io.Writer) error {
	a, err := s.fetch(ctx)
	if err == nil {
		err = s.write(w, a)
	}
	if err != nil || !s.check {
		return err
	}
	switch troubles := a.status.Troubles(); len(troubles) {
	case 0:
		return nil
	case 1:
		return errors.New(troubles[0])
	default:
		return fmt.Errorf("%d things need an operator:\n  %s", len(troubles), strings.Join(troubles, "\n  "))
	}
}

// watch shows the status again and again until ctx is done: in place on a
// terminal, elsewhere one block below the other, each with its time. An exporter
// that does not answer is not given up, it may be restarting: errw says so.
func (s statusCommand) watch(ctx context.Context, w, errw io.Writer, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		a, err := s.fetch(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !s.json {
			if err := terminal.Clear(w); err != nil {
				return err
			}
		}
		if err != nil {
			fmt.Fprintln(errw, err)
		} else if err := s.writeBlock(w, a); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// writeBlock is one turn of watch.
func (s statusCommand) writeBlock(w io.Writer, a answer) error {
	if s.json || terminal.IsTerminal(w) {
		return s.write(w, a)
	}
	fmt.Fprintln(w, time.Now().Format(time.RFC3339))
	if err := s.write(w, a); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n\n")
	return err
}

// write shows one answer: as it came, or as text.
func (s statusCommand) write(w io.Writer, a answer) error {
	if s.json {
		_, err := w.Write(a.document)
		return err
	}
	return writeStatus(w, a.status, time.Now())
}

// answer is the status of an exporter, and the document that says it.
type answer struct {
	status   exporter.Status
	document []byte
}

// fetch asks for the status. As JSON it is passed on, understood or not, unless it is
// checked.
func (s statusCommand) fetch(ctx context.Context) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	a.status, a.document, err = s.client.Status(ctx)
	if s.json && !s.check && a.document != nil {
		err = nil
	}
	return a, err
}
