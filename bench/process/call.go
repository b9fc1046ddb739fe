package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/trial"
)

// Main runs the program of that name until it is done, or asked to end.
func Main(name string, run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

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
// own, and returns what comes of it. The command is one that Answer serves.
func Call[Out any](t *trial.T, program, command string, in any) (out Out) {
	argument := trial.Must(json.Marshal(in))
	said := trial.Must(Output(t.Context(), "", program, command, string(argument)))
	trial.Check(json.Unmarshal(said, &out))
	return out
}

// Answer is the process of Call: args are what stands behind the command, and what run
// returns is written to w.
func Answer[In, Out any](run func(In, context.Context) (Out, error)) func(ctx context.Context, args []string, w io.Writer) error {
	return func(ctx context.Context, args []string, w io.Writer) error {
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
}
