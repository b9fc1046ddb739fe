// Package command is what the commands of docket share: flags, the configuration that they
// name, signals, and how an error ends the process.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/internal/fileversion"
)

// The exit codes of every command. An error with a method ExitCode has one of its own.
const (
	ExitOK     = 0
	ExitFailed = 1 // failed while running
	ExitUsage  = 2 // usage or configuration
)

// Execute runs the command that the arguments select. It writes an error to w and returns
// the exit code.
func Execute(ctx context.Context, root *cobra.Command, w io.Writer) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	var failed *FailedError
	var misconfigured *ConfigError
	var coded interface{ ExitCode() int }
	switch {
	case errors.As(err, &misconfigured):
		fmt.Fprintln(w, err)
		return ExitUsage
	case errors.As(err, new(*fileversion.Error)):
		fmt.Fprintf(w, "%s: %v\n", cmd.CommandPath(), err)
		return ExitUsage // what is wrong is which docket was started
	case errors.As(err, &coded):
		fmt.Fprintf(w, "%s: %v\n", cmd.CommandPath(), err)
		return coded.ExitCode()
	case errors.As(err, &failed):
		fmt.Fprintf(w, "%s: %v\n", cmd.CommandPath(), err)
		return ExitFailed
	}
	fmt.Fprintf(w, "docket: %v\nRun '%s --help'\n", err, cmd.CommandPath())
	return ExitUsage
}

// FailedError is a failure of a command while it ran. Every other error, including every
// error of cobra, is about how the command was called.
type FailedError struct{ err error }

func (e *FailedError) Error() string { return e.err.Error() }

func (e *FailedError) Unwrap() error { return e.err }

// Failed marks err as a failure while running; nil stays nil.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	return &FailedError{err}
}
