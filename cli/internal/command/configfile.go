package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/rooted"
)

// DefaultDataDir is the directory for everything that docket keeps when it runs without a
// configuration file.
const DefaultDataDir = "./docket-data"

// ConfigFlags are the flags that say which configuration a command is about.
type ConfigFlags struct {
	Kinds exporter.Kinds
	File  string
	Data  string // empty: the default
	// Slot is set by Load when the environment replaces a configuration file.
	Slot *GatekeeperSlot
}

// Add adds the flags to cmd.
func (f *ConfigFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.File, "file", "f", "", "configuration file; without it the built-in configuration")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml") // the flag exists
	cmd.Flags().StringVar(&f.Data, "data", "", "directory of the built-in configuration (default "+DefaultDataDir+")")
}

// Load returns the configuration in the file. Without a file it returns a built-in one: for
// a container beside Gatekeeper if the environment says so, else the default.
func (f *ConfigFlags) Load() (*exporter.Config, error) {
	if f.File != "" && f.Data != "" {
		return nil, errors.New("--file and --data exclude each other: the file names its own directories")
	}
	if f.File == "" {
		var err error
		if f.Slot, err = findGatekeeperSlot(os.Getenv, f.Data); err != nil {
			return nil, err
		}
		if f.Slot != nil {
			return builtIn(f.Slot.config(f.Kinds))
		}
		return builtIn(LoadConfig(f.Kinds, "", cmp.Or(f.Data, DefaultDataDir)))
	}
	return LoadConfig(f.Kinds, f.File, "")
}

// builtIn refuses a built-in configuration whose directories are planted links. The
// operator chooses the directory above them, and docket makes them in it.
func builtIn(cfg *exporter.Config, err error) (*exporter.Config, error) {
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{cfg.Queue.Directory, First(cfg, config.Directory)} {
		if dir == "" {
			continue
		}
		d, err := rooted.At(filepath.Dir(dir)).Join(filepath.Base(dir)).OpenDir()
		if _, planted := errors.AsType[*rooted.PlantedError](err); planted {
			return nil, Misconfigured("%w, or name another directory with --data", err)
		}
		if err == nil {
			d.Close()
		} // other failures are reported when the directory is used
	}
	return cfg, nil
}

// LoadConfig returns the configuration in file, or the built-in one below data when file is
// empty. The error lists every mistake.
func LoadConfig(kinds exporter.Kinds, file, data string) (*exporter.Config, error) {
	if file == "" {
		cfg, problems := exporter.DefaultConfig(data, kinds)
		if len(problems) > 0 {
			return nil, &ConfigError{File: "built-in configuration in " + data, Problems: problems}
		}
		return cfg, nil
	}
	text, err := ReadConfig(file)
	if err != nil {
		return nil, err
	}
	return ParseConfig(kinds, file, text)
}

// maxConfigBytes is more than a configuration has that docket can run.
const maxConfigBytes = 4 << 20

// ReadConfig returns the text of a configuration file.
func ReadConfig(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, Misconfigured("read configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, Misconfigured("read configuration: %w", err)
	}
	if len(text) > maxConfigBytes {
		return nil, Misconfigured("read configuration: %s is larger than %s: name a configuration file", file, config.Size(maxConfigBytes))
	}
	return text, nil
}

// ReadConfigAgain is ReadConfig for a file that may have been replaced since. It rejects
// anything but a regular file, because a pipe would block forever.
func ReadConfigAgain(file string) ([]byte, error) {
	if !IsRegular(file) {
		return nil, Misconfigured("read configuration: %s is not a regular file", file)
	}
	return ReadConfig(file)
}

// IsRegular reports whether file can be read repeatedly. It returns true for a missing file,
// which may be created later.
func IsRegular(file string) bool {
	info, err := os.Stat(file)
	return err != nil || info.Mode().IsRegular()
}

// ParseConfig returns the configuration in text. Errors name file as its origin.
func ParseConfig(kinds exporter.Kinds, file string, text []byte) (*exporter.Config, error) {
	cfg, problems := exporter.Load(text, kinds)
	if len(problems) > 0 {
		return nil, &ConfigError{File: file, Problems: problems}
	}
	return cfg, nil
}

// ConfigError is a configuration that cannot be used: Err, or the problems in it.
type ConfigError struct {
	Err      error
	File     string
	Problems config.Problems
}

// Misconfigured returns a ConfigError with the text that fmt.Errorf makes of format and
// args.
func Misconfigured(format string, args ...any) error {
	return &ConfigError{Err: fmt.Errorf("docket: "+format, args...)}
}

// Error lists the problems, one a line, in the form that editors follow.
func (e *ConfigError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = e.line(p)
	}
	return strings.Join(lines, "\n")
}

func (e *ConfigError) Unwrap() error { return e.Err }

func (e *ConfigError) line(p config.Problem) string {
	place := e.File
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d", e.File, p.Line)
	}
	if p.Path != "" {
		place += ": " + p.Path
	}
	return place + ": " + p.Text
}

// First returns the first value of kind that a part of cfg claims, such as the socket of a
// source or the directory of an export. It returns "" without one.
func First(cfg *exporter.Config, kind config.ClaimKind) string {
	for _, c := range cfg.Claims(kind) {
		return c.Value
	}
	return ""
}
