package cli

import (
	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/configcmd"
	"github.com/docket-export/docket/cli/deadlettercmd"
	"github.com/docket-export/docket/cli/initcmd"
	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/kubernetescmd"
	"github.com/docket-export/docket/cli/probecmd"
	"github.com/docket-export/docket/cli/querycmd"
	"github.com/docket-export/docket/cli/queuecmd"
	"github.com/docket-export/docket/cli/retrycmd"
	"github.com/docket-export/docket/cli/runcmd"
	"github.com/docket-export/docket/cli/sendcmd"
	"github.com/docket-export/docket/cli/statuscmd"
	"github.com/docket-export/docket/cli/tailcmd"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/cli/verifycmd"
	"github.com/docket-export/docket/cli/versioncmd"
)

// Root returns the command line, for programs that document it.
func Root(kinds Kinds) *cobra.Command { return newRoot(kinds) }

// newRoot returns the command line. It prints no errors itself: execute does.
func newRoot(kinds Kinds) *cobra.Command {
	root := &cobra.Command{
		Use:   "docket",
		Short: "Keep every decision of a policy engine, and deliver it",
		Long: `docket receives the decision logs of policy engines, acknowledges each record
when it is on disk, and delivers it to Kafka, HTTP and file sinks until each has
accepted it.

Try it in two terminals:

  docket run
  echo '` + command.ExampleRecord + `' | docket send`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	// The Version of cobra would print it in other words, or need a template: to link
	// those keeps every exported method of every package, 4 MB of them.
	version := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return command.Failed(versioncmd.Print(cmd.OutOrStdout(), versioncmd.This(), "text"))
		}
		return cmd.Help()
	}
	root.AddCommand(
		runcmd.New(kinds),
		initcmd.New(kinds),
		configcmd.NewCheck(kinds),
		configcmd.NewConfig(kinds),
		sendcmd.New(kinds),
		statuscmd.New(kinds),
		probecmd.New(kinds),
		tailcmd.New(kinds),
		tapcmd.New(),
		queuecmd.New(kinds),
		queuecmd.NewReplay(kinds),
		retrycmd.New(kinds),
		deadlettercmd.New(kinds),
		querycmd.New(kinds),
		verifycmd.New(),
		verifycmd.NewKeygen(),
		kubernetescmd.New(kinds),
		versioncmd.New(),
	)
	return root
}
