package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Say everything that is wrong with a configuration",
		Long: `check reads a configuration and says everything that is wrong with it, one problem
a line, as FILE:LINE: path: text, and ends with 2 when there is one. It touches
neither sinks nor the queue, but warns when the queue's directory would not
outlive the machine or the container.`,
		Example: "  docket check -f docket.yaml",
		Args:    noArgs,
	}
	var file string
	cmd.Flags().StringVarP(&file, "file", "f", "", "configuration file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file == "" {
			return errors.New("which configuration? name it with -f FILE")
		}
		return check(cmd.OutOrStdout(), file)
	}
	return cmd
}

// check says on w what is wrong with the configuration in file, or that it is ok.
func check(w io.Writer, file string) error {
	cfg, err := loadConfig(file, "")
	if wrong, ok := errors.AsType[*configError](err); ok && wrong.err == nil {
		fmt.Fprintln(w, wrong)
		return &configError{err: fmt.Errorf("docket: %s: problems: %d", file, len(wrong.problems))}
	}
	if err != nil {
		return err
	}
	if warning := volatileWarning(cfg.Queue.Directory); warning != "" {
		fmt.Fprintf(w, "%s: warning: queue.directory: %s\n", file, warning)
	}
	_, err = fmt.Fprintf(w, "%s: ok\n", file)
	return failed(err)
}
