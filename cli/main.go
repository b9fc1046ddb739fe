// Package cli is the command line of docket as a library: Main is a whole program,
// for the sources and sinks that its caller lists.
package cli

import (
	"context"
	"os"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
)

// Kinds are the sources and sinks of a program.
type Kinds = exporter.Kinds

// Main runs the command that os.Args select, for the sources and sinks in kinds, and ends
// the process. The first SIGINT or SIGTERM ends the command in order, a second one ends the
// process at once.
func Main(kinds Kinds) {
	ctx, stop := command.UntilSignal(context.Background(), os.Stderr)
	root := newRoot(kinds)
	root.SetOut(terminal.Output(os.Stdout))
	root.SetErr(terminal.Output(os.Stderr))
	code := command.Execute(ctx, root, root.ErrOrStderr())
	stop()
	os.Exit(code)
}
