// Package process starts the programs that are measured, those that they are measured
// with, and parts of a benchmark in processes of their own.
package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/trial"
)

// Process is a running program.
type Process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// Start starts a program that runs until it is ended, at the latest with the
// measurement. env is added to its environment. What it writes to its standard error is
// told beside the error that ends the measurement: it may have caused that.
func Start(t *trial.T, env []string, name string, args ...string) *Process {
	p := &Process{cmd: exec.CommandContext(t.Context(), name, args...)}
	p.cmd.Stderr = &p.stderr
	p.cmd.Env = append(os.Environ(), env...)
	trial.Check(p.cmd.Start())
	t.Cleanup(func() error {
		p.Kill()
		said := bytes.TrimSpace(p.stderr.Bytes())
		if !t.Failed() || len(said) == 0 {
			return nil
		}
		const enough = 4000
		return fmt.Errorf("%s said: %s", filepath.Base(p.cmd.Path), said[max(0, len(said)-enough):])
	})
	return p
}

// ID is that of the process.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Kill ends the process with SIGKILL and waits until it has ended. It may be called
// again.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails when it has ended already
	_ = p.cmd.Wait()         // it was killed
}

// Stop asks the process to end and waits until it has.
func (p *Process) Stop() {
	trial.Check(p.cmd.Process.Signal(unix.SIGTERM))
	if err := p.cmd.Wait(); err != nil {
		trial.Check(fmt.Errorf("%s: %w", filepath.Base(p.cmd.Path), err))
	}
}

// CPUTime is what the process has used so far.
func (p *Process) CPUTime() time.Duration { return trial.Must(CPUTime(p.cmd.Process.Pid)) }

// CPUOf is what the process uses while work is done.
func (p *Process) CPUOf(work func()) time.Duration {
	before := p.CPUTime()
	work()
	return p.CPUTime() - before
}

// Memory returns a field of /proc/PID/status in MB of a million bytes: VmRSS, VmHWM (its
// peak), or RssAnon and RssFile, its parts.
func (p *Process) Memory(field string) float64 {
	status := trial.Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			kib := trial.Must(strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64))
			return kib * 1024 / 1e6
		}
	}
	trial.Check(fmt.Errorf("the kernel tells no %s", field))
	return 0
}

// CPUTime is what all threads of a process have used, ended ones included. The
// clock of another process is finer than its /proc/PID/stat, which counts in
// hundredths of a second.
func CPUTime(pid int) (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED of the kernel's per-process clocks
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &t); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
