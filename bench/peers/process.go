package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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

// cpuTime is what all threads of the process have used, ended ones included. The
// clock of another process is finer than its /proc/PID/stat, which counts in
// hundredths of a second.
func (p *process) cpuTime() (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED of the kernel's per-process clocks
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|schedClock), &t); err != nil {
		return 0, fmt.Errorf("processor time of %s: %w", p.cmd.Path, err)
	}
	return time.Duration(t.Nano()), nil
}

// memory returns a field of /proc/PID/status, VmRSS or VmHWM (its peak), in MB.
func (p *process) memory(field string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("the kernel tells no %s", field)
}

// poll calls done until it is true, with a pause between.
func poll(ctx context.Context, pause time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting: %w", ctx.Err())
		}
	}
}
