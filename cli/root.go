package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/config"
)

// exampleRecord is what the help has a person send: a record of docket's own schema, so
// that filters, keys and encodings that ask for a decision find one.
const exampleRecord = `{"schemaVersion":1,"decision":"deny","name":"require-team"}`

// newRoot returns the command line. It prints no errors itself: execute does.
func newRoot(kinds Kinds) *cobra.Command {
	root := &cobra.Command{
		Use:   "docket",
		Short: "Keep every decision of a policy engine, and deliver it",
		Long: `docket takes decision logs in over a Unix domain socket, puts each record on disk
before it says so, and delivers it to Kafka, HTTP and file sinks until each of
them has taken it.

Try it in two terminals:

  docket run
  echo '` + exampleRecord + `' | docket send`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	// The Version of cobra would print it in other words, or need a template: to link
	// those keeps every exported method of every package, 4 MB of them.
	version := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return failed(printVersion(cmd.OutOrStdout(), thisBuild(), "text"))
		}
		return cmd.Help()
	}
	root.AddCommand(
		newRun(kinds),
		newCheck(kinds),
		newConfig(kinds),
		newSend(kinds),
		newStatus(kinds),
		newTestserver(),
		newQueue(kinds),
		newReplay(kinds),
		newDeadLetter(kinds),
		newVerify(kinds),
		newKeygen(),
		newKubeconfig(kinds),
		newVersion(),
	)
	return root
}

// noArgs refuses arguments beside flags, with a text that fits commands without
// subcommands.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

// choice is a flag that takes one of a few words.
type choice struct {
	value string
	words []string
}

// Set is part of pflag.Value.
func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.words, ", "))
	}
	c.value = s
	return nil
}

// String is part of pflag.Value.
func (c *choice) String() string { return c.value }

// Type is part of pflag.Value; help texts show it.
func (c *choice) Type() string { return strings.Join(c.words, "|") }

// durationFlag is a flag that takes a duration as the configuration does.
type durationFlag struct{ to *time.Duration }

// Set is part of pflag.Value.
func (f durationFlag) Set(text string) error {
	return (*config.Duration)(f.to).UnmarshalText([]byte(text))
}

// String is part of pflag.Value.
func (f durationFlag) String() string {
	if f.to == nil || *f.to == 0 {
		return ""
	}
	return config.Duration(*f.to).String()
}

// Type is part of pflag.Value; help texts show it.
func (durationFlag) Type() string { return "duration" }

// outputFlag adds -o to cmd; the first word is the default.
func outputFlag(cmd *cobra.Command, words ...string) *choice {
	c := &choice{value: words[0], words: words}
	cmd.Flags().VarP(c, "output", "o", "form of the output")
	return c
}
