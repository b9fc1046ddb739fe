// Package probecmd has the command that a kubelet runs in the container of docket: docket
// probe.
package probecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
)

// timeout bounds one probe. docket answers from memory; the kubelet has a bound of its own.
const timeout = 5 * time.Second

// question is what a probe asks for.
type question struct {
	path  string
	query url.Values
	good  string // what is printed where the answer is yes
}

var questions = map[string]question{
	"live":    {path: "/livez", good: "live"},
	"ready":   {path: "/readyz", good: "ready"},
	"startup": {path: "/readyz", query: url.Values{"exclude": {"queue"}}, good: "started"},
}

// New returns docket probe.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe live|ready|startup",
		Short: "Report the health of docket as an exit code, for pod probes",
		Long: `probe asks the docket that runs in this container for its health, and prints one
line:

  live      the process answers
  ready     producers can connect, and the queue can be written
  startup   producers can connect; a full disk does not count

probe asks over admin.sock in the directory of the queue, else over
admin.address. Mistakes in FILE do not matter, as docket may run with an earlier
version of it. Use --queue if FILE may be so broken that probe cannot read the
directory from it.

probe exits 0 when the answer is yes. It exits 1 when the answer is no or no
docket runs, and 2 when it does not know where to ask.`,
		Example: `  docket probe live -f /etc/docket/docket.yaml --queue /var/lib/docket/queue
  docket probe ready -f docket.yaml`,
		ValidArgs: slices.Sorted(maps.Keys(questions)),
		Args:      checkArgs,
	}
	var where whereabouts
	where.Kinds = kinds
	where.Add(cmd)
	cmd.Flags().StringVar(&where.queue, "queue", "", "directory of the queue, instead of the one in FILE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		docket, err := where.client(cmd.Context())
		if err != nil {
			return err
		}
		q := questions[args[0]]
		if err := q.ask(cmd.Context(), docket); err != nil {
			return command.Failed(fmt.Errorf("not %s: %w", q.good, err))
		}
		fmt.Fprintln(cmd.OutOrStdout(), q.good)
		return nil
	}
	return cmd
}

func checkArgs(_ *cobra.Command, args []string) error {
	if len(args) != 1 || questions[args[0]].path == "" {
		return errors.New("needs one of: " + strings.Join(slices.Sorted(maps.Keys(questions)), ", "))
	}
	return nil
}

func (q question) ask(ctx context.Context, docket *adminclient.Client) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("docket does not answer within %s", timeout))
	defer cancel()
	res, err := docket.Get(ctx, q.path, q.query)
	if err == nil {
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// whereabouts say where the docket is.
type whereabouts struct {
	command.ConfigFlags
	queue string
}

// client asks the docket at the queue of --queue, or of the configuration, or at its admin
// address. Of a file only where docket is matters.
func (w *whereabouts) client(ctx context.Context) (*adminclient.Client, error) {
	if w.File == "" {
		cfg, err := w.Load()
		if err != nil {
			return nil, err
		}
		return adminclient.ForEither(cmp.Or(w.queue, cfg.Queue.Directory), cfg.Admin.Address), nil
	}
	if w.Data != "" {
		return nil, errors.New("--file and --data exclude each other: the file names its own directories")
	}
	// A pipe would hold the probe up.
	text, err := command.ReadConfigAgain(w.File)
	if err != nil && w.queue != "" {
		return adminclient.ForQueue(w.queue), nil
	}
	if err != nil {
		return nil, &command.ConfigError{Err: fmt.Errorf("%w: give the directory of the queue with --queue", err)}
	}
	directory, admin, ok := exporter.Whereabouts(text)
	if !ok && w.queue == "" {
		err := errors.New("no admin.address either")
		if admin.Address != "" {
			docket := adminclient.ForAddress(admin.Address)
			if err = docket.Reach(ctx); err == nil {
				return docket, nil
			}
		}
		return nil, command.Misconfigured("%s: no readable queue.directory: give the directory with --queue (%w)", w.File, err)
	}
	return adminclient.ForEither(cmp.Or(w.queue, directory), admin.Address), nil
}
