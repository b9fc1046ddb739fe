// Package configcmd has the commands on a configuration: docket config and docket check.
package configcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/exporter"
)

// NewConfig returns docket config.
func NewConfig(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration, with every default",
		Long: `config prints the configuration that run would use, with every default filled
in. The output is a valid configuration file. For a shorter one to start with,
run docket init.

--schema prints the JSON Schema (2020-12) of configuration files. With it an
editor completes and explains keys, and marks unknown keys and values of the
wrong type.`,
		Example: `  docket config -f docket.yaml     the file with its defaults
  docket config                    the built-in configuration
  docket config --schema > docket.schema.json`,
		Args: command.NoArgs,
	}
	flags := command.ConfigFlags{Kinds: kinds}
	flags.Add(cmd)
	output := command.OutputFlag(cmd, "yaml", "json")
	schema := cmd.Flags().Bool("schema", false, "print the JSON Schema of configuration files")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *schema {
			if cmd.Flags().NFlag() > 1 {
				return errors.New("--schema is the same for every configuration: leave the other flags out")
			}
			return command.Failed(printSchema(cmd.OutOrStdout(), kinds))
		}
		cfg, err := load(&flags)
		if err != nil {
			return err
		}
		return command.Failed(printConfig(cmd.OutOrStdout(), cfg, output.Value))
	}
	return cmd
}

// effective is a configuration of any kind, with its defaults.
type effective interface{ YAML() ([]byte, error) }

// load returns the configuration that flags name.
func load(flags *command.ConfigFlags) (effective, error) {
	if flags.File == "" || flags.Data != "" {
		return flags.Load()
	}
	text, err := command.ReadConfig(flags.File)
	if err != nil {
		return nil, err
	}
	if !tapcmd.IsTap(text) {
		return command.ParseConfig(flags.Kinds, flags.File, text)
	}
	cfg, problems := tapcmd.Load(text)
	if len(problems) > 0 {
		return nil, &command.ConfigError{File: flags.File, Problems: problems}
	}
	return cfg, nil
}

func printConfig(w io.Writer, cfg effective, output string) error {
	text, err := cfg.YAML()
	if err != nil {
		return err
	}
	if output == "json" {
		if text, err = yamlToJSON(text); err != nil {
			return err
		}
	}
	_, err = w.Write(text)
	return err
}

// yamlToJSON rewrites a document that has only string keys.
func yamlToJSON(text []byte) ([]byte, error) {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("configuration as JSON: %w", err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}
