package configcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/hostcheck"
	"github.com/docket-export/docket/internal/memlimit"
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

With --connect it goes on to try every sink without a record: names, connections,
certificates, credentials, the topic. It ends with 1 when one cannot be reached.

With --try it goes on to say, for each line of a file of records, which sinks would
take it and what redaction would leave of it. Sources with rules are tried one by one.
It ends with 1 when a line would be refused, or when a filter cannot be evaluated for
it: such a record is delivered, or withheld with onError: Withhold.`,
		Example: `  docket check -f docket.yaml
  docket check -f docket.yaml --connect
  docket check -f docket.yaml --try samples.ndjson
  docket check -f docket.yaml --try - --source webhook -o json < samples.ndjson
  helm template ... | yq '.data["docket.yaml"]' | docket check -f - --no-files`,
		Args: command.NoArgs,
	}
	var file string
	cmd.Flags().StringVarP(&file, "file", "f", "", "configuration file; - is the standard input")
	var try tryFlags
	noFiles := cmd.Flags().Bool("no-files", false, "do not look whether the files it names are there: they are elsewhere")
	toConnect := cmd.Flags().Bool("connect", false, "try every sink, and say what is wrong and what to do")
	cmd.Flags().StringVar(&try.file, "try", "", "file of records, one a line, to say what becomes of them; - is the standard input")
	cmd.Flags().StringVar(&try.source, "source", "", "with --try: as if the records came from this source only")
	try.output = command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := try.check(file); err != nil {
			return err
		}
		name, cfg, err := configToCheck(kinds, cmd.InOrStdin(), file, !*noFiles)
		if name == "" {
			return err
		}
		out := cmd.OutOrStdout()
		if *toConnect && try.file != "" {
			return errors.New("--connect and --try exclude each other: one is about destinations, the other about records")
		}
		if *toConnect {
			if err := check(out, name, cfg, err); err != nil {
				return err
			}
			return connectSinks(cmd.Context(), out, name, cfg)
		}
		if try.file == "" {
			return check(out, name, cfg, err)
		}
		if err := check(cmd.ErrOrStderr(), name, cfg, err); err != nil {
			return err
		}
		return try.try(cmd.InOrStdin(), out, cfg)
	}
	return cmd
}

// configToCheck loads the configuration in file, which messages call name, and looks at
// the files that it names if withFiles is set. Without a name there is none.
func configToCheck(kinds exporter.Kinds, stdin io.Reader, file string, withFiles bool) (name string, cfg *exporter.Config, err error) {
	var text []byte
	switch name = file; file {
	case "":
		return "", nil, errors.New("which configuration? name it with -f FILE")
	case "-":
		name = "stdin"
		if text, err = io.ReadAll(stdin); err != nil {
			return "", nil, command.Misconfigured("read configuration from standard input: %w", err)
		}
	default:
		if text, err = command.ReadConfig(file); err != nil {
			return name, nil, err
		}
	}
	cfg, err = command.ParseConfig(kinds, name, text)
	if err != nil || !withFiles {
		return name, cfg, err
	}
	if problems := fileProblems(cfg.Files()); len(problems) > 0 {
		root, _ := config.Parse(text) // which was whole a moment ago
		return name, nil, &command.ConfigError{File: name, Problems: root.Locate(problems)}
	}
	return name, cfg, nil
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

// check says on w what loading the configuration in file has found: that it is
// ok, or what is wrong with it.
func check(w io.Writer, file string, cfg *exporter.Config, err error) error {
	if wrong, ok := errors.AsType[*command.ConfigError](err); ok && wrong.Err == nil {
		fmt.Fprintln(w, wrong)
		return command.Misconfigured("%s: problems: %d", file, len(wrong.Problems))
	}
	if err != nil {
		return err
	}
	for _, warning := range hostcheck.Warnings(cfg) {
		fmt.Fprintf(w, "%s: warning: %s\n", file, warning)
	}
	_, err = fmt.Fprintf(w, "%s: memory: %s\n%s: ok\n", file, memoryText(cfg.Memory()), file)
	return command.Failed(err)
}

// memoryText says what docket has in memory at most.
func memoryText(parts []exporter.MemoryPart) string {
	words := make([]string, len(parts))
	for i, p := range parts {
		words[i] = p.Name + " " + memlimit.Mebibytes(p.Bytes)
	}
	return fmt.Sprintf("stays below %s (%s)", memlimit.Mebibytes(exporter.MemoryCeiling(parts)), strings.Join(words, ", "))
}
