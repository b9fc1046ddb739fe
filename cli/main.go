// Package cli is the command line of docket as a library: Main is a whole program,
// for the sources and sinks that its caller lists.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/fileversion"
)

// The exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1 // failed while running
	exitUsage  = 2 // usage or configuration

	exitUnanchored = 3 // docket verify alone: nothing is wrong, and the end is not proven
)

// Kinds are the sources and sinks of a program.
type Kinds = exporter.Kinds

// Main runs the command that os.Args select, for the sources and sinks in kinds, and
// ends the process. SIGINT and SIGTERM end the command, a second one at once.
func Main(kinds Kinds) {
	ctx, stop := untilSignal(context.Background(), os.Stderr)
	root := newRoot(kinds)
	root.SetOut(output(os.Stdout))
	root.SetErr(output(os.Stderr))
	code := execute(ctx, root, root.ErrOrStderr())
	stop()
	os.Exit(code)
}

// execute runs the command that the arguments select, says on w what went wrong
// and returns the exit code.
func execute(ctx context.Context, root *cobra.Command, w io.Writer) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var failed *failedError
	var misconfigured *configError
	var unproven *unanchoredError
	switch {
	case errors.As(err, &misconfigured):
		fmt.Fprintln(w, err)
		return exitUsage
	case errors.As(err, new(*fileversion.Error)):
		fmt.Fprintf(w, "%s: %v\n", cmd.CommandPath(), err)
		return exitUsage // what is wrong is which docket was started
	case errors.As(err, &unproven):
		fmt.Fprintf(w, "%s: %v\n", cmd.CommandPath(), err)
		return exitUnanchored
	case errors.As(err, &failed):
		fmt.Fprintf(w, "%s: %v\n", cmd.CommandPath(), err)
		return exitFailed
	}
	fmt.Fprintf(w, "docket: %v\nRun '%s --help'\n", err, cmd.CommandPath())
	return exitUsage
}

// failedError is what went wrong once a command was at work. Every other error,
// cobra's own ones among them, is about how the command was called.
type failedError struct{ err error }

func (e *failedError) Error() string { return e.err.Error() }

func (e *failedError) Unwrap() error { return e.err }

// failed marks err as a failure while running; nil stays nil.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &failedError{err}
}
