package queuecmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/human"
)

func newQueueCat(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cat",
		Short: "Print the records of a queue",
		Long: `cat prints the records that a queue holds, one a line, each byte for byte as it
came. It asks the docket that runs on the queue. While no docket runs it reads
the files. With -o json each record is the member "record" of an object that
shows where the record came from.

On a terminal, cat shows control characters, and characters that hide or reorder
text, as \u202e and the like. So a producer cannot control your terminal.

cat skips records that are lost to damage, names them on the standard error and
exits 1: the output is not complete then.`,
		Example: `  docket queue cat | head
  docket queue cat -f docket.yaml --from 1000 --to 1999
  docket queue cat -f docket.yaml --sink siem -o json    what siem has yet to get`,
		Args: command.NoArgs,
	}
	flags := newLookFlags(cmd, kinds)
	var r catRange
	cmd.Flags().Uint64Var(&r.from, "from", 0, "number of the first record (default the first kept)")
	cmd.Flags().Uint64Var(&r.to, "to", math.MaxUint64, "number of the last record")
	cmd.Flags().Lookup("to").DefValue = ""
	cmd.Flags().StringVar(&r.sink, "sink", "", "start at the first record that this sink has not handled")
	output := command.OutputFlag(cmd, "ndjson", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := r.check(); err != nil {
			return err
		}
		run := func(v view) error {
			c := cat{v: v, out: bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10), notes: cmd.ErrOrStderr(), wrap: output.Value == "json"}
			return c.run(cmd.Context(), r)
		}
		return flags.with(cmd.Context(), func(client *adminclient.Client) error {
			q, err := client.Queue(cmd.Context())
			if err != nil {
				return err
			}
			return run(q)
		}, func(o *inspect.Queue) error { return run(o) })
	}
	return cmd
}

// view is a queue at work or at rest.
type view interface {
	ID() string
	FirstSeq() uint64
	Sink(name string) (a state.Account, ok bool)
	Read(ctx context.Context, r segment.SeqRange, record func(segment.Record) error, lost func(inspect.Finding) error) error
}

// catRange is which records are asked for.
type catRange struct {
	from, to uint64 // both belong to it; from is 0 when it was not given
	sink     string
}

func (r catRange) check() error {
	if r.sink != "" && r.from > 0 {
		return errors.New("--sink and --from exclude each other: --sink starts at the position of the sink")
	}
	if r.to < r.from {
		return fmt.Errorf("--to %d is before --from %d", r.to, r.from)
	}
	return nil
}

// cat writes records.
type cat struct {
	v     view
	out   *bufio.Writer
	notes io.Writer
	wrap  bool // in an object that says where the record came from
	line  []byte
}

func (c *cat) run(ctx context.Context, r catRange) error {
	wanted := segment.SeqRange{From: max(r.from, 1), To: r.to}
	if r.to < math.MaxUint64 {
		wanted.To++
	}
	if r.sink != "" {
		a, ok := c.v.Sink(r.sink)
		if !ok {
			return fmt.Errorf("the queue has no sink %q: docket queue ls lists its sinks", r.sink)
		}
		wanted.From = a.Next
	}
	if first := c.v.FirstSeq(); r.from > 0 && r.from < first {
		fmt.Fprintf(c.notes, "note: record %d is no longer kept, the first is %d\n", r.from, first)
	}
	var missing uint64
	unreadable := false
	err := c.v.Read(ctx, wanted, c.record, func(f inspect.Finding) error {
		fmt.Fprintln(c.notes, f)
		if f.Severity != inspect.Note {
			lost := segment.SeqRange{From: max(f.Lost.From, wanted.From), To: min(f.Lost.To, wanted.To)}
			missing += max(lost.To, lost.From) - lost.From
			unreadable = unreadable || f.Kind == inspect.UnreadableFile
		}
		return nil
	})
	if err == nil {
		err = c.out.Flush()
	}
	switch {
	case errors.Is(err, syscall.EPIPE):
		return nil // the reader has enough
	case err != nil:
		return err
	case unreadable:
		return errors.New("part of the queue cannot be read")
	case missing > 0:
		return fmt.Errorf("cannot read %s in this range", human.Count(missing, "record"))
	}
	return nil
}

func (c *cat) record(r segment.Record) error {
	line := r.Data
	if c.wrap {
		c.line = inspect.AppendRecord(c.line[:0], r)
		line = c.line
	}
	if _, err := c.out.Write(line); err != nil {
		return err
	}
	return c.out.WriteByte('\n')
}
