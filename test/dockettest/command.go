package dockettest

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
)

// ConfigFile is the path of the configuration that Start writes.
func (d *Docket) ConfigFile() string { return filepath.Join(d.Dir, "docket.yaml") }

// Run runs a command of docket, whether or not docket run does at the time, and
// returns what it writes to its standard output. The exit code must be 0.
func (d *Docket) Run(args ...string) []byte {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), sendTimeout)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, d.binary, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("docket %v: %v; it said:\n%s%s", args, err, out, stderr.Bytes())
	}
	return out
}

// Try is Run for a command that may fail. It returns what the command writes to both
// outputs, in order, and its exit code.
func (d *Docket) Try(args ...string) (said []byte, code int) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), sendTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.binary, args...)
	said, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		d.t.Fatalf("docket %v: %v", args, err)
	}
	return said, cmd.ProcessState.ExitCode()
}
