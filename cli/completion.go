package cli

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/config"
)

// newCompletion returns docket completion. That of cobra is listed under the same name, with
// a shell that docket does not run beside.
func newCompletion() *cobra.Command {
	shells := map[string]func(root *cobra.Command, w io.Writer) error{
		"bash": func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":  (*cobra.Command).GenZshCompletion,
		"fish": func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	}
	names := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion script of a shell",
		Long: `completion prints a script for your shell. The script completes commands, flags,
the values of flags and configuration files. It also completes the names of the
sinks and sources in the file that -f names.`,
		Example: `  docket completion bash > ~/.local/share/bash-completion/completions/docket
  docket completion zsh > "${fpath[1]}/_docket"
  docket completion fish > ~/.config/fish/completions/docket.fish`,
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("missing argument: bash, zsh or fish")
			}
			return config.Choice(args[0], names...)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return command.Failed(shells[args[0]](cmd.Root(), cmd.OutOrStdout()))
		},
	}
}

// addCompletions lets shells complete what the commands below cmd take: the words of a
// choice, configuration files, and the names of sinks and sources that the file of -f has.
func addCompletions(cmd *cobra.Command) {
	hasFile := cmd.Flags().Lookup("file") != nil
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		complete := completionOf(f, hasFile)
		if _, taken := cmd.GetFlagCompletionFunc(f.Name); complete != nil && !taken {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // the flag exists
		}
	})
	switch {
	case cmd.ValidArgsFunction != nil || cmd.ValidArgs != nil:
	case hasFile && strings.Contains(cmd.Use, " SINK"):
		cmd.ValidArgsFunction = namesIn("sinks")
	case cmd.Args != nil && cmd.Args(cmd, []string{"argument"}) != nil:
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		addCompletions(sub)
	}
}

// completionOf returns nil where the shell's own completion will do.
func completionOf(f *pflag.Flag, hasFile bool) cobra.CompletionFunc {
	choice, _ := f.Value.(*command.Choice)
	switch {
	case choice != nil:
		return cobra.FixedCompletions(choice.Words, cobra.ShellCompDirectiveNoFileComp)
	case f.Name == "file" && f.Shorthand == "f":
		return cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	case f.Name == "sink" && hasFile:
		return namesIn("sinks")
	case f.Name == "source" && hasFile:
		return namesIn("sources")
	}
	return nil
}

// namesIn completes the names of a list in the file of -f, which may have mistakes.
func namesIn(list string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) (names []string, _ cobra.ShellCompDirective) {
		file, _ := cmd.Flags().GetString("file")
		text, err := command.ReadConfig(file)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		root, _ := config.Parse(text)
		entries, _ := root.Get(list)
		for _, entry := range entries.Items() {
			var e struct {
				Name string                 `yaml:"name"`
				Rest map[string]config.Node `yaml:",rest"`
			}
			_ = entry.Decode(&e) // docket check says what is wrong
			if e.Name != "" && strings.HasPrefix(e.Name, begun) {
				names = append(names, e.Name)
			}
		}
		slices.Sort(names)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
