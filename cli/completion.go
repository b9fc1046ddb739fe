package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docket-export/docket/cli/internal/command"
)

// addCompletions lets shells complete what the commands below cmd take: the words of a
// choice, and configuration files.
func addCompletions(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		complete := completionOf(f)
		if _, taken := cmd.GetFlagCompletionFunc(f.Name); complete != nil && !taken {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // the flag exists
		}
	})
	switch {
	case cmd.ValidArgsFunction != nil || cmd.ValidArgs != nil:
	case cmd.Args != nil && cmd.Args(cmd, []string{"argument"}) != nil:
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		addCompletions(sub)
	}
}

// completionOf returns nil where the shell's own completion will do.
func completionOf(f *pflag.Flag) cobra.CompletionFunc {
	choice, _ := f.Value.(*command.Choice)
	switch {
	case choice != nil:
		return cobra.FixedCompletions(choice.Words, cobra.ShellCompDirectiveNoFileComp)
	case f.Name == "file" && f.Shorthand == "f":
		return cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	}
	return nil
}
