// Package querycmd has docket query, which searches exports and queues.
package querycmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/filter"
	"github.com/docket-export/docket/internal/human"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// New returns docket query.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "query DIR|-f FILE",
		Short: "Search a file export or the queue",
		Long: `query prints the records of a file export or of a queue that match an expression
and a time range. The export may be compressed. -f names the configuration
of a queue.

Write an expression as in a sink's filter: "record" is the record, and
"normalized" is the form that the records of all engines share. Records come in
the order in which docket stored them.

The time of a record is the time of the decision, as the record gives it
(normalized.when). A record without one has the time when docket received it,
from the stamp of the sink or from the queue. --from is inclusive, --to
exclusive: RFC 3339, a day or a month in UTC, or how long ago.

  ndjson  the records' own bytes
  csv     the normalized form; a text that a spreadsheet would take for a formula
          starts with an apostrophe

query proves nothing: run docket verify first. It exits 1 when it could not
search everything, and says why on the standard error. An empty result is no
failure.`,
		Example: `  docket query /var/log/docket --when 'normalized.decision == "deny" && normalized.resource.namespace == "shop"' --from 2026-03 --to 2026-04
  docket query -f docket.yaml --from 1h
  docket query /var/log/docket --from 7d -o csv > week.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("too many arguments: name the directory of one export")
			}
			return nil
		},
	}
	q := query{flags: command.AdminFlags{ConfigFlags: command.ConfigFlags{Kinds: kinds}}}
	q.flags.Add(cmd)
	cmd.Flags().StringVar(&q.when, "when", "", "CEL expression to select records (default all)")
	cmd.Flags().StringVar(&q.from, "from", "", "start of the range, inclusive: time, day, month, or how long ago (24h, 7d)")
	cmd.Flags().StringVar(&q.to, "to", "", "end of the range, exclusive")
	output := command.OutputFlag(cmd, string(ndjson), string(csv))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q.console = terminal.NewConsole(cmd.ErrOrStderr())
		out := &q.search.out
		w := cmd.OutOrStdout()
		if terminal.IsTerminal(w) {
			w, out.terminal = q.console.Beside(w), true
		}
		out.w, out.form = bufio.NewWriterSize(w, 64<<10), form(output.Value)
		if err := q.parse(args); err != nil {
			return err
		}
		return q.run(cmd.Context())
	}
	return cmd
}

// query is one run of docket query.
type query struct {
	flags          command.AdminFlags
	when, from, to string

	dir      string // of an export; empty: the queue is searched
	search   search
	progress verify.Progress
	console  *terminal.Console
}

// parse reads what the flags say.
func (q *query) parse(args []string) (err error) {
	if len(args) > 0 {
		q.dir = args[0]
	}
	isQueue := q.flags.File != "" || q.flags.Data != ""
	switch {
	case q.dir == "" && !isQueue:
		return errors.New("missing DIR or -f FILE: name the directory of a file export, or the configuration of a queue")
	case q.dir != "" && isQueue:
		return errors.New("DIR and -f or --data exclude each other: search an export or a queue")
	}
	if q.search.filter, err = filter.Compile(q.when); err != nil {
		return fmt.Errorf("--when: %w", err)
	}
	now := time.Now()
	if q.search.from, err = parseBound("--from", q.from, now); err != nil {
		return err
	}
	if q.search.to, err = parseBound("--to", q.to, now); err != nil {
		return err
	}
	if from, to := q.search.from, q.search.to; !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return fmt.Errorf("--from %s must be before --to %s", q.from, q.to)
	}
	return nil
}

func (q *query) run(ctx context.Context) error {
	if q.dir == "" {
		return q.searchQueue(ctx)
	}
	c, err := verify.Open(q.dir)
	if errors.Is(err, verify.ErrNoExport) {
		return command.Misconfigured("%w", err)
	}
	if err != nil {
		return command.Failed(err)
	}
	defer func() { _ = c.Close() }() // it was only read
	q.search.report = report{problems: c.Problems, notes: c.Notes}
	q.progress.Total.Store(c.Bytes())
	return q.find(ctx, partsOf(c, &q.progress))
}

// find searches parts and writes what it finds.
func (q *query) find(ctx context.Context, parts []part) error {
	stop := q.console.Follow(func() terminal.Work {
		return terminal.Work{
			What: "searching", Done: q.progress.Done.Load(), Total: q.progress.Total.Load(),
			Note: human.Count(uint64(q.search.found.Load()), "record") + " found",
		}
	})
	err := q.search.run(ctx, parts)
	stop()
	if errors.Is(err, syscall.EPIPE) {
		return nil // the reader has enough
	}
	if err == nil {
		err = q.search.report.say(q.console.Say)
	}
	return command.Failed(err)
}
