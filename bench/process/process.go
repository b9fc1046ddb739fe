// Package process starts the programs that are measured, those that they are measured
// with, and parts of a benchmark in processes of their own.
package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/host"
)

// Process is a running program.
type Process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// Start starts a program that runs until it is ended, or ctx is done. env is added to
// its environment.
func Start(ctx context.Context, env []string, name string, args ...string) (*Process, error) {
	p := newProcess(ctx, name, args)
	p.cmd.Env = append(os.Environ(), env...)
	return p, p.cmd.Start()
}

func newProcess(ctx context.Context, name string, args []string) *Process {
	p := &Process{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Stderr = &p.stderr
	return p
}

// Kill ends the process with SIGKILL and waits until it has ended. It may be called
// again.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails when it has ended already
	_ = p.cmd.Wait()         // it was killed
}

// Stop asks the process to end and waits until it has.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		return err
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(p.cmd.Path), err, bytes.TrimSpace(p.stderr.Bytes()))
	}
	return nil
}

// LastWords kills the process and returns what it has written to its standard error,
// for the error that it has caused; nil: nothing.
func (p *Process) LastWords() error {
	p.Kill()
	said := bytes.TrimSpace(p.stderr.Bytes())
	if len(said) == 0 {
		return nil
	}
	const enough = 4000
	return fmt.Errorf("%s said: %s", filepath.Base(p.cmd.Path), said[max(0, len(said)-enough):])
}

// CPUTime is what the process has used so far.
func (p *Process) CPUTime() (time.Duration, error) { return host.CPUTime(p.cmd.Process.Pid) }

// Memory is a field of /proc/PID/status, in MB.
func (p *Process) Memory(field string) (float64, error) {
	return host.Memory(p.cmd.Process.Pid, field)
}
