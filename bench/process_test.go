package bench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// process is a program that runs until it is ended, at the latest with the benchmark.
type process struct {
	b     *testing.B
	cmd   *exec.Cmd
	said  bytes.Buffer
	ended chan struct{} // closed when it has, as err says
	err   error
}

func start(b *testing.B, env []string, command ...string) *process {
	b.Helper()
	p := &process{b: b, cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env...), &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	check(b, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	b.Cleanup(func() {
		p.kill()
		if said := p.said.Bytes(); b.Failed() && len(said) > 0 {
			b.Logf("%s said: %s", filepath.Base(command[0]), said[max(0, len(said)-4000):])
		}
	})
	return p
}

// serve starts a process that does j and listens at a socket.
func serve(b *testing.B, j job, socket string) *process {
	b.Helper()
	env, command := as(b, j)
	p := start(b, env, command...)
	p.listens(socket, time.Millisecond)
	return p
}

// kill ends the process with SIGKILL. It may be called again.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails when it has ended already
	<-p.ended
}

func (p *process) stop() {
	p.b.Helper()
	check(p.b, p.cmd.Process.Signal(unix.SIGTERM))
	<-p.ended
	check(p.b, p.err)
}

// ready waits until ok, for as long as the process runs.
func (p *process) ready(pause time.Duration, ok func() bool) {
	p.b.Helper()
	until(p.b, filepath.Base(p.cmd.Path)+" to be ready", pause, func() bool {
		select {
		case <-p.ended:
			p.b.Fatalf("%s has ended: %v", p.cmd.Path, p.err)
		default:
		}
		return ok()
	})
}

// listens waits until its socket takes a connection.
func (p *process) listens(socket string, pause time.Duration) {
	p.b.Helper()
	p.ready(pause, func() bool {
		nc, err := net.Dial("unix", socket)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}

// serve returns what a load has cost the process.
func (p *process) serve(o *load) stint {
	p.b.Helper()
	cpu := p.cpu()
	s := perform(p.b, o).stint()
	s.cpu = p.cpu() - cpu
	return s
}

func (p *process) cpu() time.Duration { return cpuTime(p.cmd.Process.Pid) }

// memory returns a field of /proc/PID/status in MB: VmRSS, or VmHWM, its peak.
func (p *process) memory(field string) float64 {
	_, rest, _ := strings.Cut(string(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))(p.b)), field+":")
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return must(strconv.ParseFloat(value, 64))(p.b) * 1024 / 1e6
}

// cpuTime is what all threads of a process have used, ended ones included. The clock of another process
// is finer than its /proc/PID/stat, which counts in hundredths of a second.
func cpuTime(pid int) time.Duration {
	const schedClock = 2 // CPUCLOCK_SCHED of the kernel's per-process clocks
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|schedClock), &t) != nil {
		return 0 // it has ended
	}
	return time.Duration(t.Nano())
}

// rest returns when the disk that dir is on has nothing left to write.
func rest(b *testing.B, dir string) {
	b.Helper()
	d := must(os.Open(dir))(b)
	defer d.Close()
	check(b, unix.Syncfs(int(d.Fd())))
}

// newSocket is a path for a socket. It must be short, so it is not on the disk.
func newSocket(b *testing.B) string { return filepath.Join(b.TempDir(), "s") }

// freeAddress is on loopback, and nobody listens there. The kernel gives its port to nobody by chance.
func freeAddress(b *testing.B) string {
	b.Helper()
	for {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))); err == nil {
			check(b, l.Close())
			return l.Addr().String()
		}
	}
}
