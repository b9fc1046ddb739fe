package configcmd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
)

// NewCheck returns docket check.
func NewCheck(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Say everything that is wrong with a configuration",
		Long: `check reads a configuration and says everything that is wrong with it, one problem
a line, as FILE:LINE: path: text, and ends with 2 when there is one. Secrets, keys and
certificates that it names must be there and readable for the user that runs check;
with --no-files they need not, for a configuration that is checked elsewhere. It
touches neither sinks nor the queue, but warns when the queue's directory would not
outlive the machine or the container, when its file system has less room than
queue.maxBytes asks for, when others may write to a directory or a secret file that
it names, or read such a file, and of what looks like a credential out of its place.
It says how much memory docket takes at most with this configuration, whatever peers
send: the least limit of a container.

A file of kind Tap, for docket tap, is checked as well.

With --connect it goes on to try every sink without a record: names, connections,
certificates, credentials, the topic. It ends with 1 when one cannot be reached.

With --diff it goes on to say what a docket that runs with this queue does when the file
takes the place of the present one, a line for each source, sink and section: keep, add,
change, remove, retire, or restart where docket must be started again. It compares with
the configuration that took effect last, which lies in the queue's directory.

With -o json it prints one document: each problem with file, line, path and text, the
warnings, the memory, what became of the sinks, and what a reload does.

With --try it goes on to say, for each line of a file of records, which sinks would
take it and what redaction would leave of it. Sources with rules are tried one by one.
It ends with 1 when a line would be refused, or when a filter cannot be evaluated for
it: such a record is delivered, or withheld with onError: Withhold.`,
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
	cmd.Flags().StringVarP(&file, "file", "f", "", "configuration file; - is the standard input")
	var try tryFlags
	noFiles := cmd.Flags().Bool("no-files", false, "do not look whether the files it names are there: they are elsewhere")
	toDiff := cmd.Flags().Bool("diff", false, "say what a reload of the file does to the docket that runs")
	toConnect := cmd.Flags().Bool("connect", false, "try every sink, and say what is wrong and what to do")
	cmd.Flags().StringVar(&try.file, "try", "", "file of records, one a line, to say what becomes of them; - is the standard input")
	cmd.Flags().StringVar(&try.source, "source", "", "with --try: as if the records came from this source only")
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
				return fmt.Errorf("--connect, --diff and --try are about sinks, which a file of kind Tap has none of: leave them out for %s", name)
			}
			r, err := checkTap(name, text, !*noFiles)
			if err != nil {
				return err
			}
			return r.write(cmd.OutOrStdout(), try.output.Value)
		}
		if *toConnect && try.file != "" {
			return errors.New("--connect and --try exclude each other: one is about destinations, the other about records")
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
			r.Sinks = connectSinks(cmd.Context(), terminal.NewConsole(cmd.ErrOrStderr()), cfg)
		}
		return r.write(cmd.OutOrStdout(), try.output.Value)
	}
	return cmd
}

// textToCheck returns the text of the configuration in file, which messages call name.
func textToCheck(stdin io.Reader, file string) (name string, text []byte, err error) {
	switch file {
	case "":
		return "", nil, errors.New("which configuration? name it with -f FILE")
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
			problems.Addf(f.Path, "%s cannot be read by user %d: %v (or check elsewhere with --no-files)", f.File, os.Geteuid(), err)
		}
	}
	return problems
}
