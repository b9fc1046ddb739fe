// Package querycmd has docket query, which searches exports and queues.
package querycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/cli/verifycmd"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/filter"
	"github.com/docket-export/docket/internal/human"
	"github.com/docket-export/docket/sinks/filesink"
	"github.com/docket-export/docket/sinks/filesink/manifest"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// New returns docket query.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "query DIR|-f FILE",
		Short: "Search a file export or the queue",
		Long: `query writes the records of a file export, compressed or not, or of the queue of a
configuration, that an expression takes and that are from a time. It reads the same
expressions as the filter of a sink: record is the record, and normalized the form
that the records of all engines have in common. Records come in the order in which
docket stored them.

A record's time is when it was decided, as the record says (normalized.when). Where it
does not say, the time is when docket received it, by the stamp of the sink or the queue.
--from is inclusive, --to exclusive: RFC 3339, a day or a month in UTC, or how long ago.

  ndjson  the records' own bytes
  csv     the normalized form. A text that a spreadsheet would take for a formula
          has an apostrophe in front
  table   most of the normalized form, for people

--verified proves the export first, as docket verify does and with the same flags, and
writes only what an anchor vouches for. Nothing is written before the proof, or without
one: then query ends with 1.

It also ends with 1 when it could not search everything, and says why on the standard
error. That nothing was found is no failure.`,
		Example: `  docket query /var/log/docket --when 'normalized.decision == "deny" && normalized.resource.namespace == "shop"' --from 2026-03 --to 2026-04
  docket query -f docket.yaml --from 1h -o table
  docket query /var/log/docket --from 7d -o csv > week.csv
  docket query /var/log/docket --verified --checkpoints siem.ndjson --when 'normalized.user == "alice"'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("one export at a time: name its directory, and nothing else")
			}
			return nil
		},
	}
	q := query{flags: command.AdminFlags{ConfigFlags: command.ConfigFlags{Kinds: kinds}}}
	q.flags.Add(cmd)
	cmd.Flags().StringVar(&q.when, "when", "", "CEL expression that is true for the records to find (default all)")
	cmd.Flags().StringVar(&q.from, "from", "", "records from then on: time, day, month, or how long ago (24h, 7d)")
	cmd.Flags().StringVar(&q.to, "to", "", "records before then")
	cmd.Flags().BoolVar(&q.verified, "verified", false, "prove the export first, and write only what is proven")
	q.proof.Add(cmd)
	output := command.OutputFlag(cmd, string(ndjson), string(table), string(csv))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q.console = terminal.NewConsole(cmd.ErrOrStderr())
		if q.out.w = cmd.OutOrStdout(); terminal.IsTerminal(q.out.w) {
			q.out.w, q.out.terminal = q.console.Beside(q.out.w), true
		}
		q.stdin = cmd.InOrStdin()
		q.search.form, q.out.form = form(output.Value), form(output.Value)
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
	proof          verifycmd.ProofFlags
	when, from, to string
	verified       bool

	dir      string // of an export; empty: the queue is searched
	search   search
	progress verify.Progress
	console  *terminal.Console
	out      writer
	stdin    io.Reader
}

// parse reads what the flags say.
func (q *query) parse(args []string) (err error) {
	if len(args) > 0 {
		q.dir = args[0]
	}
	isQueue := q.flags.File != "" || q.flags.Data != "" || q.flags.Admin != ""
	switch {
	case q.dir == "" && !isQueue:
		return errors.New("search what? name the directory of a file export, or a configuration with -f for its queue")
	case q.dir != "" && isQueue:
		return errors.New("the directory of an export and -f, --data or --admin exclude each other: those name a queue")
	case q.verified && isQueue:
		return errors.New("--verified is for file exports: docket queue check reads a queue for damage")
	case !q.verified && q.proof.AreSet():
		return errors.New(verifycmd.ProofFlagNames + " belong to --verified")
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
		return fmt.Errorf("--from %s does not lie before --to %s", q.from, q.to)
	}
	return nil
}

func (q *query) run(ctx context.Context) error {
	if q.dir == "" {
		return q.searchQueue(ctx)
	}
	c, err := q.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it was only read
	q.search.report = report{problems: c.Problems, notes: c.Notes}
	q.progress.Total.Store(c.Bytes())
	return q.find(ctx, partsOf(c, &q.progress))
}

// open returns what is to be searched of the export: with --verified the records that are proven.
func (q *query) open(ctx context.Context) (c *verify.Contents, err error) {
	if q.verified {
		return q.proof.Prove(ctx, q.dir, q.stdin, q.console)
	}
	c, err = verify.Open(q.dir, func() (manifest.Position, bool, error) { return filesink.ReadPosition(q.dir) })
	if errors.Is(err, verify.ErrNoExport) {
		return nil, command.Misconfigured("%w", err)
	}
	return c, command.Failed(err)
}

// find searches parts and writes what it finds.
func (q *query) find(ctx context.Context, parts []part) error {
	stop := q.console.Follow(func() terminal.Work {
		return terminal.Work{
			What: "searching", Done: q.progress.Done.Load(), Total: q.progress.Total.Load(),
			Note: human.Count(uint64(q.search.found.Load()), "record") + " found",
		}
	})
	err := q.search.run(ctx, parts, q.out.write)
	if err == nil {
		err = q.out.end()
	}
	stop()
	if errors.Is(err, syscall.EPIPE) {
		return nil // the reader has enough
	}
	if err == nil {
		err = q.search.report.say(q.console.Say)
	}
	return command.Failed(err)
}
