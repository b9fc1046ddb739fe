package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/internal/datasync"
)

// version is set by release builds: -ldflags "-X main.version=v1.2.3". Without
// it the version is the one that the go command recorded.
var version string

// unsafeBuild is what to know of a program that was built with the tag nosync.
const unsafeBuild = "built to measure (tag nosync): nothing is synced, and what is acknowledged can be lost"

// build describes this program.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Unsafe is that the program syncs nothing, and is none to keep records with.
	Unsafe bool `json:"unsafe,omitempty"`
}

func thisBuild() build {
	b := build{
		Version:  version,
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Unsafe:   !datasync.Syncs,
	}
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
		if b.Version == "" {
			b.Version = info.Main.Version
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	return b
}

func (b build) String() string {
	s := "docket " + b.Version
	if b.Commit != "" {
		s += " (" + b.Commit + ")"
	}
	s += " " + b.Go + " " + b.Platform
	if b.Unsafe {
		s += " UNSAFE: " + unsafeBuild
	}
	return s
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  docket version\n  docket version -o json",
		Args:    noArgs,
	}
	output := outputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return failed(printVersion(cmd.OutOrStdout(), thisBuild(), output.value))
	}
	return cmd
}

func printVersion(w io.Writer, b build, output string) error {
	if output == "json" {
		return json.NewEncoder(w).Encode(b)
	}
	_, err := fmt.Fprintln(w, b)
	return err
}
