// Package proc runs the real programs of a test as child processes that cannot
// outlive it.
package proc

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running child. It leads its own process group, so that a signal
// meant for the test (Ctrl-C in a terminal) leaves it to the test to end the
// child in order; and it is killed by the system when the test process dies,
// however that happens (on Linux).
type Process struct {
	cmd  *exec.Cmd
	log  *Log
	done chan struct{} // closed when the process has been reaped
	err  error         // how it ended; readable when done is closed
}

// Start runs cmd. Its output goes to the log of the process, unless cmd has another
// place for both its Stdout and its Stderr.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, log: newLog(), done: make(chan struct{})}
	if cmd.Stdout == nil && cmd.Stderr == nil {
		cmd.Stdout, cmd.Stderr = p.log, p.log
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	// A grandchild that keeps the output open must not keep Wait for ever. Where there
	// is none the last words are read in no time, unless the machine is busy: then Wait
	// must not take a good end for a bad one.
	cmd.WaitDelay = time.Minute

	started := make(chan error)
	go func() {
		// The system's "parent" is the thread that started the child: it must
		// not end before the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// Log is what the process has written so far. It stays readable after its end.
func (p *Process) Log() *Log { return p.log }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process and returns how it ended: nil for exit
// code 0.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// End waits for the end of the process and says how it ended: "exit status 0".
func (p *Process) End() string {
	<-p.done
	return p.cmd.ProcessState.String()
}

// Stop sends SIGTERM and waits at most timeout for the process to end, which is
// then killed. It returns nil when the process has ended by itself with exit
// code 0.
func (p *Process) Stop(timeout time.Duration) error {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(timeout):
		p.Kill()
		return fmt.Errorf("stop %s: still running %v after SIGTERM, killed", p.cmd.Path, timeout)
	}
}

// Signal sends sig to the process. One that has ended is left alone.
func (p *Process) Signal(sig os.Signal) {
	// The only error is that there is nothing left to signal.
	_ = p.cmd.Process.Signal(sig)
}

// Kill ends the process and its group by SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	select {
	case <-p.done:
		// Reaped: its id may be somebody else's by now.
		return
	default:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}
