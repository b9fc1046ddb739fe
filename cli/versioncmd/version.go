// Package versioncmd knows the version of this program: docket version.
package versioncmd

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
)

// version is set by release builds, of any main package:
// -ldflags "-X github.com/docket-export/docket/cli/versioncmd.version=v1.2.3". Without it the
// version is the one that the go command recorded.
var version string

// modulePath is the module of docket, which is a dependency of a program whose main
// package is elsewhere.
const modulePath = "github.com/docket-export/docket"

// Build describes this program.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// This describes the running program.
func This() Build {
	b := Build{
		Version:  version,
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.read(info)
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	return b
}

// read fills in what info says of docket. The commit that the go command records is
// that of the main module, which may be another.
func (b *Build) read(info *debug.BuildInfo) {
	if info.Main.Path == modulePath {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
	}
	for _, m := range append(info.Deps, &info.Main) {
		if b.Version == "" && m.Path == modulePath {
			b.Version = m.Version
		}
	}
}

func (b Build) String() string {
	s := "docket " + b.Version
	if b.Commit != "" {
		s += " (" + b.Commit + ")"
	}
	return s + " " + b.Go + " " + b.Platform
}

// New returns docket version.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  docket version\n  docket version -o json",
		Args:    command.NoArgs,
	}
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return command.Failed(Print(cmd.OutOrStdout(), This(), output.Value))
	}
	return cmd
}

// Print writes b in the form that output names.
func Print(w io.Writer, b Build, output string) error {
	if output == "json" {
		return json.NewEncoder(w).Encode(b)
	}
	_, err := fmt.Fprintln(w, b)
	return err
}
