// Package tailcmd has the command that follows the records of a running docket: docket tail.
package tailcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/filter"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/human"
)

const (
	// every is how often docket is asked for more records, and after it has gone.
	every = 500 * time.Millisecond
	// page is how many records one request asks for.
	page = 10_000
)

// New returns docket tail.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show records as they are stored",
		Long: `tail shows the records of a running docket as they are stored, one a line, until
Ctrl-C. It asks docket for new records twice a second.

Records that docket has delivered to every sink and removed before tail could
show them are missed. tail says how many. When docket restarts, tail waits for
it.

On a terminal, tail shows control characters, and characters that hide or
reorder text, as \u202e and the like. So a producer cannot control your
terminal.`,
		Example: `  docket tail
  docket tail -f docket.yaml --when 'record.enforcementAction == "deny"'
  docket tail -o json | jq .source`,
		Args: command.NoArgs,
	}
	flags := command.AdminFlags{ConfigFlags: command.ConfigFlags{Kinds: kinds}}
	flags.Add(cmd)
	var t tail
	when := cmd.Flags().String("when", "", "show only the records for which this CEL expression is true")
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if t.when, err = filter.Compile(*when); err != nil {
			return fmt.Errorf("--when: %w", err)
		}
		if t.client, err = flags.Client(); err != nil {
			return err
		}
		t.json = output.Value == "json"
		t.out, t.notes = bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10), cmd.ErrOrStderr()
		return command.Failed(t.run(cmd.Context(), every))
	}
	return cmd
}

// tail shows what a docket has stored.
type tail struct {
	client *adminclient.Client
	when   *filter.Filter // nil: all
	json   bool
	out    *bufio.Writer
	notes  io.Writer
	next   uint64 // the record that comes next; 0: not known yet
	line   []byte
}

// run follows the records until ctx is done or nobody reads. A docket that has answered once
// is waited for, and asked again each pause.
func (t *tail) run(ctx context.Context, pause time.Duration) error {
	connected := false
	for {
		behind, err := t.read(ctx)
		refused, isRefused := errors.AsType[*adminclient.RefusedError](err)
		_, isMalformed := errors.AsType[*adminclient.MalformedError](err)
		_, failed := errors.AsType[*outputError](err)
		switch {
		case ctx.Err() != nil, failed && errors.Is(err, syscall.EPIPE):
			return nil // told to end, or who reads has enough
		case err == nil:
			connected = true
		case isRefused && refused.Status == http.StatusServiceUnavailable: // another client reads the queue
		case failed, isRefused, isMalformed, t.next == 0:
			return err
		case connected:
			fmt.Fprintln(t.notes, "connection to docket lost: waiting for docket")
			connected = false
		}
		if behind {
			continue
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// read shows the next page of records, and reports whether there are more.
func (t *tail) read(ctx context.Context) (more bool, err error) {
	status, _, err := t.client.Status(ctx)
	if err != nil {
		return false, err
	}
	end := status.Queue.LastSeq + 1
	if t.next == 0 || t.next > end { // or the queue is another
		t.next = end
	}
	r := segment.SeqRange{From: t.next, To: min(end, t.next+page)}
	lost := func(inspect.Finding) error { return nil } // the next record shows how many
	err = t.client.Records(ctx, r, t.show, lost)
	if err == nil {
		err = t.missed(r.To)
	}
	if err == nil {
		err = t.written(t.out.Flush())
	}
	return err == nil && r.To < end, err
}

// outputError is a failure to write what is shown.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }

func (e *outputError) Unwrap() error { return e.err }

func (t *tail) written(err error) error {
	if err != nil {
		return &outputError{err}
	}
	return nil
}

// missed moves on to the record next, and tells of those before it that did not come.
func (t *tail) missed(next uint64) error {
	n := next - t.next
	t.next = next
	if n == 0 {
		return nil
	}
	fmt.Fprintf(t.notes, "%s missed: docket no longer keeps them, or they are damaged\n", human.Count(n, "record"))
	if !t.json {
		return nil
	}
	_, err := fmt.Fprintf(t.out, "{\"missed\":%d}\n", n)
	return t.written(err)
}

// show writes a record, unless the expression leaves it out or cannot judge it.
func (t *tail) show(r segment.Record) error {
	if err := t.missed(r.Seq); err != nil {
		return err
	}
	t.next = r.Seq + 1
	if takes, err := t.when.Takes(r.Data); !takes || err != nil {
		return nil
	}
	if t.line = append(t.line[:0], r.Data...); t.json {
		t.line = inspect.AppendRecord(t.line[:0], r)
	}
	_, err := t.out.Write(append(t.line, '\n'))
	return t.written(err)
}
