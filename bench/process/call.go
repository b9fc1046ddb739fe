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
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/trial"
)

// Main runs the program of that name until it is done, or asked to end.
func Main(name string, run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// TimeLeft says how long the rest takes when done of all took so long.
func TimeLeft(took time.Duration, done, all int) string {
	if done == 0 {
		return ""
	}
	left := took / time.Duration(done) * time.Duration(all-done)
	return ", about " + left.Round(time.Second).String() + " left"
}

// endWait is for a program that is asked to end and has to end others first.
const endWait = 15 * time.Second

// Output runs a program in dir, with at least one argument, to its end and returns what
// it prints, without the space around; an empty dir is that of this process. When the
// measurement has to end, so has the program.
func Output(t *trial.T, dir, name string, args ...string) string {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environment(dir), &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = endWait
	if err := cmd.Run(); err != nil {
		trial.Check(fmt.Errorf("%s %s: %w: %s", filepath.Base(name), args[0], err, bytes.TrimSpace(stderr.Bytes())))
	}
	return string(bytes.TrimSpace(stdout.Bytes()))
}

// environment is that of a program in dir. A tree that is older than the workspace
// lies below this one and must not take its go.work for its own.
func environment(dir string) []string {
	if dir == "" {
		return os.Environ()
	}
	if _, err := os.Stat(filepath.Join(dir, "go.work")); err != nil {
		return append(os.Environ(), "GOWORK=off")
	}
	return append(os.Environ(), "GOWORK=")
}

// Call has program, which is this one, run one of its commands in a process of its
// own, and returns what comes of it. The command is one that Answer serves.
func Call[Out any](t *trial.T, program, command string, in any) (out Out) {
	argument := trial.Must(json.Marshal(in))
	trial.Check(json.Unmarshal([]byte(Output(t, "", program, command, string(argument))), &out))
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
