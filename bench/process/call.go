package process

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
)

// Output runs a program in dir, with at least one argument, to its end and returns what
// it prints; an empty dir is that of this process.
func Output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", filepath.Base(name), args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// Call has program, which is this one, run one of its commands in a process of its
// own, and stores in out what comes of it. The command is one that Answer serves.
func Call(ctx context.Context, program, command string, in, out any) error {
	argument, err := json.Marshal(in)
	if err != nil {
		return err
	}
	said, err := Output(ctx, "", program, command, string(argument))
	if err != nil {
		return err
	}
	return json.Unmarshal(said, out)
}

// Answer is the process of Call: args are what stands behind the command, and what run
// returns is written to w.
func Answer[In, Out any](ctx context.Context, args []string, w io.Writer, run func(In, context.Context) (Out, error)) error {
	if len(args) != 1 {
		return fmt.Errorf("got %d arguments, want one", len(args))
	}
	var in In
	if err := json.Unmarshal([]byte(args[0]), &in); err != nil {
		return err
	}
	out, err := run(in, ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(out)
}
