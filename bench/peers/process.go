package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/docket-export/docket/bench/host"
)

// process is a running program.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// start starts a program that runs until kill is called or ctx is done.
func start(ctx context.Context, c command) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, c.name, c.args...)}
	p.cmd.Env = append(os.Environ(), c.env...)
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// kill ends the process with SIGKILL and waits until it has ended.
func (p *process) kill() {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		fmt.Fprintln(os.Stderr, "peers:", err)
	}
	_ = p.cmd.Wait() // it was killed
}

// lastWords are what the process has said, for the error that it has caused. They
// are to be asked for once it has ended.
func (p *process) lastWords() error {
	said := bytes.TrimSpace(p.stderr.Bytes())
	if len(said) == 0 {
		return nil
	}
	const enough = 2000
	return fmt.Errorf("it said: %s", said[max(0, len(said)-enough):])
}

// cpuTime is what the process has used so far.
func (p *process) cpuTime() (time.Duration, error) { return host.CPUTime(p.cmd.Process.Pid) }

// memory is a field of /proc/PID/status, in MB.
func (p *process) memory(field string) (float64, error) { return host.Memory(p.cmd.Process.Pid, field) }
