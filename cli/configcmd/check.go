package configcmd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
)

// NewCheck returns docket check.
func NewCheck(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Check a configuration",
		Long: `check reads a configuration and lists every mistake in it, one a line, as
FILE:LINE: path: text. It exits 2 when there is a mistake.

Secrets, keys and certificates that FILE names must exist and be readable for
the user that runs check. Use --no-files when FILE belongs to another machine.
check contacts no sink and does not open the queue.

check warns when
  - the queue's directory would not outlive the machine or the container
  - its file system has less room than queue.maxBytes
  - others may write to a directory or a secret file that FILE names
  - others may read such a secret file

It also prints the memory that docket needs at most with FILE, whatever peers
send. Set at least this much as the memory limit of the container.

check accepts files of kind Tap, for docket tap, as well.

--connect also tests every sink without sending a record: names, connections,
certificates, credentials, the topic. It exits 1 when a sink cannot be reached.

--diff also shows what a running docket would do with FILE as its new
configuration. Each source, sink and section has a line: keep, add, change,
remove, retire, or restart where docket must be started again. It compares FILE
with the configuration that took effect last, which is stored in the queue's
directory. A line "delete" counts the finished files that a new or changed file
sink deletes as soon as it starts, because they are beyond its retain.

--try also reads a file of records. For each line it shows which sinks would get
the record and what redaction would leave of it. It tests each source with rules
separately. It exits 1 when a line would be refused, or when a filter cannot be
evaluated for it. Such a record is delivered, or withheld with onError:
Withhold.

-o json prints one document: each problem with file, line, path and text, the
warnings, the memory, the result of each sink, and the effects of a reload.`,
		Example: `  docket check -f docket.yaml
  docket check -f docket.yaml --connect
  docket check -f docket.yaml --diff
  docket check -f docket.yaml -o json
  docket check -f docket.yaml --try samples.ndjson
  docket check -f docket.yaml --try - --source webhook -o json < samples.ndjson
  helm template ... | yq '.data["docket.yaml"]' | docket check -f - --no-files`,
		Args: command.NoArgs,
	}
	var file string
	cmd.Flags().StringVarP(&file, "file", "f", "", "configuration file; - reads the standard input")
	var try tryFlags
	noFiles := cmd.Flags().Bool("no-files", false, "skip the files that FILE names: they are on another machine")
	toDiff := cmd.Flags().Bool("diff", false, "also show what a reload of FILE would change")
	toConnect := cmd.Flags().Bool("connect", false, "also test every sink, and show what to do")
	cmd.Flags().StringVar(&try.file, "try", "", "file of records, one a line, to test; - reads the standard input")
	cmd.Flags().StringVar(&try.source, "source", "", "with --try: treat the records as this source's")
	try.output = command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := try.check(file); err != nil {
			return err
		}
		name, text, err := textToCheck(cmd.InOrStdin(), file)
		if err != nil {
			return err
		}
		if tapcmd.IsTap(text) {
			if *toConnect || *toDiff || try.file != "" {
				return fmt.Errorf("%s: --connect, --diff and --try need sinks, and a file of kind Tap has none: leave these flags out", name)
			}
			r, err := checkTap(name, text, !*noFiles)
			if err != nil {
				return err
			}
			return r.write(cmd.OutOrStdout(), try.output.Value)
		}
		if *toConnect && try.file != "" {
			return errors.New("--connect and --try exclude each other: run check once with each")
		}
		cfg, err := configToCheck(kinds, name, text, !*noFiles)
		r, err := exporterReport(name, cfg, err)
		if err != nil {
			return err
		}
		if try.file != "" {
			if err := r.write(cmd.ErrOrStderr(), "text"); err != nil {
				return err
			}
			return try.try(cmd.InOrStdin(), cmd.OutOrStdout(), cfg)
		}
		if *toDiff && r.OK {
			if r.Reload, err = diff(cfg, kinds); err != nil {
				return err
			}
		}
		if *toConnect && r.OK {
			r.Sinks = connectSinks(cmd.Context(), cfg)
		}
		return r.write(cmd.OutOrStdout(), try.output.Value)
	}
	return cmd
}

// textToCheck returns the text of the configuration in file, which messages call name.
func textToCheck(stdin io.Reader, file string) (name string, text []byte, err error) {
	switch file {
	case "":
		return "", nil, errors.New("missing -f FILE: name the configuration")
	case "-":
		if text, err = io.ReadAll(stdin); err != nil {
			return "", nil, command.Misconfigured("read configuration from standard input: %w", err)
		}
		return "stdin", text, nil
	}
	text, err = command.ReadConfig(file)
	return file, text, err
}

// configToCheck loads the configuration in text, which messages call name, and looks at
// the files that it names if withFiles is set.
func configToCheck(kinds exporter.Kinds, name string, text []byte, withFiles bool) (*exporter.Config, error) {
	cfg, err := command.ParseConfig(kinds, name, text)
	if err != nil || !withFiles {
		return cfg, err
	}
	if err := checkFiles(name, text, cfg.Files()); err != nil {
		return nil, err
	}
	return cfg, nil
}

// checkFiles refuses text if this user cannot read the files that it names.
func checkFiles(name string, text []byte, files []config.FileUse) error {
	problems := fileProblems(files)
	if len(problems) == 0 {
		return nil
	}
	root, _ := config.Parse(text) // which was whole a moment ago
	return &command.ConfigError{File: name, Problems: root.Locate(problems)}
}

// checkTap is the report about a configuration of kind Tap.
func checkTap(name string, text []byte, withFiles bool) (*report, error) {
	cfg, problems := tapcmd.Load(text)
	if len(problems) > 0 {
		return reportOf(name, &command.ConfigError{File: name, Problems: problems})
	}
	var err error
	if withFiles {
		err = checkFiles(name, text, cfg.Files())
	}
	return tapReport(name, cfg.Files(), cfg.MemoryCeiling(), err)
}

// fileProblems says which files this user cannot read.
func fileProblems(files []config.FileUse) (problems config.Problems) {
	for _, f := range files {
		if err := f.Check(); err != nil {
			problems.Addf(f.Path, "%s cannot be read by user %d: %v; use --no-files if the file is on another machine", f.File, os.Geteuid(), err)
		}
	}
	return problems
}
