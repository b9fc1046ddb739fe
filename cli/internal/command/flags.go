package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/config"
)

// ExampleRecord is the record that help texts send. It has docket's own schema, so that
// filters, keys and encodings find a decision in it.
const ExampleRecord = `{"schemaVersion":1,"decision":"deny","name":"require-team"}`

// NoArgs rejects arguments other than flags. Its error fits commands without subcommands.
func NoArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

// Group adds subcommands to cmd. By itself cmd shows its help. An unknown subcommand is an
// error: cobra alone would show the help and exit 0.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
		}
		return cmd.Help()
	}
	cmd.AddCommand(subcommands...)
}

// Choice is a flag that takes one of a few words.
type Choice struct {
	Value string
	Words []string
}

// Set is part of pflag.Value.
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Words, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.Words, ", "))
	}
	c.Value = s
	return nil
}

// String is part of pflag.Value.
func (c *Choice) String() string { return c.Value }

// Type is part of pflag.Value; help texts show it.
func (c *Choice) Type() string { return strings.Join(c.Words, "|") }

// Duration is a flag that takes a duration as the configuration does.
type Duration struct{ To *time.Duration }

// Set is part of pflag.Value.
func (f Duration) Set(text string) error {
	return (*config.Duration)(f.To).UnmarshalText([]byte(text))
}

// String is part of pflag.Value.
func (f Duration) String() string {
	if f.To == nil || *f.To == 0 {
		return ""
	}
	return config.Duration(*f.To).String()
}

// Type is part of pflag.Value; help texts show it.
func (Duration) Type() string { return "duration" }

// OutputFlag adds -o to cmd; the first word is the default.
func OutputFlag(cmd *cobra.Command, words ...string) *Choice {
	c := &Choice{Value: words[0], Words: words}
	cmd.Flags().VarP(c, "output", "o", "form of the output")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return c
}
