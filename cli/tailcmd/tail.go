// Package tailcmd has the command that follows the records of a running docket: docket tail.
package tailcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/filter"
	"github.com/docket-export/docket/internal/human"
)

// again is how soon docket is asked again after it has gone.
const again = time.Second

// New returns docket tail.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show records as they are stored",
		Long: `tail shows the records of a running docket as they are stored, one a line, until
Ctrl-C. With --sink it shows each record once the sink is done with it, after
its number and its result: delivered, filtered, deadLettered or dropped.

tail slows neither producers nor sinks. When records come faster than it can
show them, it misses some and says how many. docket queue cat shows them all.
When docket restarts, tail waits for it.

On a terminal, tail shows control characters, and characters that hide or
reorder text, as \u202e and the like. So a producer cannot control your
terminal.`,
		Example: `  docket tail
  docket tail -f docket.yaml --when 'record.enforcementAction == "deny"'
  docket tail -f docket.yaml --sink siem
  docket tail -o json | jq .source`,
		Args: command.NoArgs,
	}
	flags := command.AdminFlags{ConfigFlags: command.ConfigFlags{Kinds: kinds}}
	flags.Add(cmd)
	var t tail
	cmd.Flags().StringVar(&t.when, "when", "", "show only the records for which this CEL expression is true")
	cmd.Flags().StringVar(&t.sink, "sink", "", "show the result of each record at this sink")
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := filter.Check(t.when); err != nil {
			return fmt.Errorf("--when: %w", err)
		}
		client, err := flags.Client()
		if err != nil {
			return err
		}
		t.client, t.json = client, output.Value == "json"
		t.out, t.notes = bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10), cmd.ErrOrStderr()
		return command.Failed(t.run(cmd.Context(), again))
	}
	return cmd
}

// tail shows what a docket has stored.
type tail struct {
	client     *adminclient.Client
	when, sink string
	json       bool
	out        *bufio.Writer
	notes      io.Writer
	next       uint64 // the record that comes next; 0: whichever
	line       []byte
}

// run follows the records until ctx is done or nobody reads. A docket that has answered once
// is waited for, and asked again each pause.
func (t *tail) run(ctx context.Context, pause time.Duration) error {
	answered, connected := false, false
	for {
		err := t.client.Tail(ctx, t.query(), func() { answered, connected = true, true }, t.show)
		_, refused := errors.AsType[*adminclient.RefusedError](err)
		_, malformed := errors.AsType[*adminclient.MalformedError](err)
		_, failed := errors.AsType[*outputError](err)
		if ctx.Err() != nil || failed && errors.Is(err, syscall.EPIPE) {
			err, failed = nil, true // told to end, or who reads has enough
		}
		switch {
		case failed, refused, malformed, !answered:
			return err
		case connected:
			fmt.Fprintln(t.notes, "connection to docket lost: waiting for docket")
			connected = false
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

func (t *tail) query() url.Values {
	q := url.Values{}
	for key, value := range map[string]string{"when": t.when, "sink": t.sink} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if t.next > 0 && t.sink == "" {
		q.Set("from", strconv.FormatUint(t.next, 10))
	}
	return q
}

// outputError is a failure to write what is shown.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }

func (e *outputError) Unwrap() error { return e.err }

// show writes one line, and those before it when there is no other yet.
func (t *tail) show(f adminclient.Followed) error {
	line := f.Line
	switch {
	case f.Missed > 0:
		fmt.Fprintf(t.notes, "%s missed: records came faster than tail could show them\n", human.Count(f.Missed, "record"))
		if !t.json {
			line = nil
		}
	default:
		t.next = f.Record.Seq + 1
		if !t.json {
			line = f.Record.Data
		}
		if !t.json && t.sink != "" {
			t.line = fmt.Appendf(t.line[:0], "%d\t%s\t%s", f.Record.Seq, f.Outcome, f.Record.Data)
			line = t.line
		}
	}
	var err error
	if line != nil {
		_, err = t.out.Write(line)
	}
	if err == nil && line != nil {
		err = t.out.WriteByte('\n')
	}
	if err == nil && !f.More {
		err = t.out.Flush()
	}
	if err != nil {
		return &outputError{err}
	}
	return nil
}
