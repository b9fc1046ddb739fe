// Package topcmd has the live view of a running docket on a terminal: docket top.
package topcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
)

const (
	// interval is fast enough to see a sink recover, and slow enough to read.
	interval = time.Second
	// patience bounds one question, which docket answers from memory.
	patience = 3 * time.Second
)

// New returns docket top.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the rates of the running docket",
		Long: `top shows a running docket and refreshes each second. It lists problems that
need an operator, the rates of sources and sinks, the records that wait and
their age, and when the disk will be full at this rate. Press q or Ctrl-C to
end it.

Without a terminal, top prints one screen below the other. With -o json it
prints the documents of /status, one a line.`,
		Example: `  docket top                       the docket that runs without a configuration file
  docket top -f docket.yaml        the one that runs with this file
  docket top --once
  docket top -o json | jq '.queue.fullInSeconds'`,
		Args: command.NoArgs,
	}
	flags := command.AdminFlags{ConfigFlags: command.ConfigFlags{Kinds: kinds}}
	flags.Add(cmd)
	var once bool
	cmd.Flags().BoolVar(&once, "once", false, "show one screen, and exit")
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := flags.Client()
		if err != nil {
			return err
		}
		t := top{client: client, out: cmd.OutOrStdout(), errOut: cmd.ErrOrStderr(), json: output.Value == "json"}
		if once {
			return command.Failed(t.once(cmd.Context()))
		}
		return command.Failed(t.run(cmd.Context()))
	}
	return cmd
}

type top struct {
	client      *adminclient.Client
	out, errOut io.Writer
	json        bool
}

// answer is what docket says, or why it says nothing.
type answer struct {
	status   exporter.Status
	document []byte
	err      error
}

func (t top) ask(ctx context.Context) answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	status, document, err := t.client.Status(ctx)
	return answer{status, document, err}
}

// once shows one answer.
func (t top) once(ctx context.Context) error {
	a := t.ask(ctx)
	if a.err != nil {
		return a.err
	}
	return t.write(a)
}

// run shows one answer after the other until ctx is done or the reader leaves. A docket that
// does not answer is not given up: it may be restarting.
func (t top) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan answer)
	var asking sync.WaitGroup
	asking.Go(func() { t.keepAsking(ctx, answers) })
	defer asking.Wait()
	defer cancel()
	if !t.json {
		if screen, ok := terminal.NewFull(t.out); ok {
			defer screen.Close()
			return t.watch(ctx, screen, answers)
		}
	}
	return t.stream(ctx, answers)
}

func (t top) keepAsking(ctx context.Context, answers chan<- answer) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case answers <- t.ask(ctx):
		case <-ctx.Done():
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// watch shows the answers in place, on a terminal.
func (t top) watch(ctx context.Context, screen *terminal.Full, answers <-chan answer) error {
	p := picture{where: t.client.Where(), live: true}
	colour := hasColour(screen)
	for {
		width, height := screen.Size()
		if err := screen.Draw(p.paint(width, height, colour)); err != nil {
			return err
		}
		select {
		case a := <-answers:
			p.take(a, time.Now())
		case <-screen.Resized():
		case <-screen.Quit():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// hasColour is by the rule of no-color.org.
func hasColour(out any) bool {
	_, isScreen := out.(*terminal.Full)
	return (isScreen || terminal.IsTerminal(out)) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// stream writes one answer below the other.
func (t top) stream(ctx context.Context, answers <-chan answer) error {
	var said string
	for {
		select {
		case a := <-answers:
			if a.err == nil {
				said = ""
				if err := t.write(a); err != nil {
					return err
				}
			} else if text := a.err.Error(); text != said && ctx.Err() == nil {
				said = text
				fmt.Fprintln(t.errOut, text)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// write shows one answer as text, or the document in one line.
func (t top) write(a answer) error {
	if t.json {
		var line bytes.Buffer
		if err := json.Compact(&line, a.document); err != nil {
			return err
		}
		line.WriteByte('\n')
		_, err := t.out.Write(line.Bytes())
		return err
	}
	p := picture{where: t.client.Where()}
	p.take(a, time.Now())
	lines := p.paint(terminal.Width(t.out), 0, false)
	_, err := io.WriteString(t.out, strings.Join(lines, "\n")+"\n\n")
	return err
}
