package dockettest

import (
	"bytes"
	"context"
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
