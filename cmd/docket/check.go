package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/exporter"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Say everything that is wrong with a configuration",
		Long: `check reads a configuration and says everything that is wrong with it, one problem
a line, as FILE:LINE: path: text, and ends with 2 when there is one. It touches
neither sinks nor the queue, but warns when the queue's directory would not
outlive the machine or the container, and when its file system has less room than
queue.maxBytes asks for.`,
		Example: `  docket check -f docket.yaml
  helm template ... | yq '.data["docket.yaml"]' | docket check -f -`,
		Args: noArgs,
	}
	var file string
	cmd.Flags().StringVarP(&file, "file", "f", "", "configuration file; - is the standard input")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch file {
		case "":
			return errors.New("which configuration? name it with -f FILE")
		case "-":
			text, err := io.ReadAll(cmd.InOrStdin())
			if err != nil {
				return &configError{err: fmt.Errorf("docket: read configuration from standard input: %w", err)}
			}
			cfg, err := parseConfig("stdin", text)
			return check(cmd.OutOrStdout(), "stdin", cfg, err)
		}
		cfg, err := loadConfig(file, "")
		return check(cmd.OutOrStdout(), file, cfg, err)
	}
	return cmd
}

// check says on w what loading the configuration in file has found: that it is
// ok, or what is wrong with it.
func check(w io.Writer, file string, cfg *exporter.Config, err error) error {
	if wrong, ok := errors.AsType[*configError](err); ok && wrong.err == nil {
		fmt.Fprintln(w, wrong)
		return &configError{err: fmt.Errorf("docket: %s: problems: %d", file, len(wrong.problems))}
	}
	if err != nil {
		return err
	}
	for _, warning := range queueWarnings(cfg.Queue) {
		fmt.Fprintf(w, "%s: warning: %s\n", file, warning)
	}
	_, err = fmt.Fprintf(w, "%s: ok\n", file)
	return failed(err)
}
