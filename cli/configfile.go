package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/rooted"
)

// defaultDataDir is where everything lies that docket keeps when it runs without
// a configuration file.
const defaultDataDir = "./docket-data"

// configFlags are the flags that say which configuration a command is about.
type configFlags struct {
	kinds Kinds
	file  string
	data  string // empty: the default
	// slot is set by load where the environment took the place of a file.
	slot *gatekeeperSlot
}

func (f *configFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "configuration file; without it the built-in configuration")
	cmd.Flags().StringVar(&f.data, "data", "", "directory of the built-in configuration (default "+defaultDataDir+")")
}

// load returns the configuration in the file, or a built-in one: that for a container
// beside Gatekeeper, where the environment says that this is one, or the default.
func (f *configFlags) load() (*exporter.Config, error) {
	if f.file != "" && f.data != "" {
		return nil, errors.New("--file and --data exclude each other: the file names its own directories")
	}
	if f.file == "" {
		var err error
		if f.slot, err = findGatekeeperSlot(os.Getenv, f.data); err != nil {
			return nil, err
		}
		if f.slot != nil {
			return builtIn(f.slot.config(f.kinds))
		}
		return builtIn(loadConfig(f.kinds, "", cmp.Or(f.data, defaultDataDir)))
	}
	return loadConfig(f.kinds, f.file, "")
}

// builtIn passes on a built-in configuration whose directories nobody has planted: only
// the one above them is the operator's choice, and docket makes them in it.
func builtIn(cfg *exporter.Config, err error) (*exporter.Config, error) {
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{cfg.Queue.Directory, exportDirectory(cfg)} {
		if dir == "" {
			continue
		}
		d, err := rooted.At(filepath.Dir(dir)).Join(filepath.Base(dir)).OpenDir()
		if _, planted := errors.AsType[*rooted.PlantedError](err); planted {
			return nil, &configError{err: fmt.Errorf("docket: %w, or name another directory with --data", err)}
		}
		if err == nil {
			d.Close()
		} // what else is wrong is reported by whoever needs the directory
	}
	return cfg, nil
}

// loadConfig returns the configuration in file, or the built-in one below data
// when file is empty. Everything that is wrong with it is in the error.
func loadConfig(kinds Kinds, file, data string) (*exporter.Config, error) {
	if file == "" {
		cfg, problems := exporter.DefaultConfig(data, kinds)
		if len(problems) > 0 {
			return nil, &configError{file: "built-in configuration in " + data, problems: problems}
		}
		return cfg, nil
	}
	text, err := readConfig(file)
	if err != nil {
		return nil, err
	}
	return parseConfig(kinds, file, text)
}

func readConfig(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &configError{err: fmt.Errorf("docket: read configuration: %w", err)}
	}
	return text, nil
}

// parseConfig returns the configuration in text, which is from file.
func parseConfig(kinds Kinds, file string, text []byte) (*exporter.Config, error) {
	cfg, problems := exporter.Load(text, kinds)
	if len(problems) > 0 {
		return nil, &configError{file: file, problems: problems}
	}
	return cfg, nil
}

// configError is a configuration that cannot be used: err, or the problems in it.
type configError struct {
	err      error
	file     string
	problems config.Problems
}

// Error lists the problems, one a line, in the form that editors follow.
func (e *configError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	lines := make([]string, len(e.problems))
	for i, p := range e.problems {
		lines[i] = e.line(p)
	}
	return strings.Join(lines, "\n")
}

func (e *configError) Unwrap() error { return e.err }

func (e *configError) line(p config.Problem) string {
	place := e.file
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d", e.file, p.Line)
	}
	if p.Path != "" {
		place += ": " + p.Path
	}
	return place + ": " + p.Text
}
