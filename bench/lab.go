package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/host"
)

// lab is where experiments are done: a directory on the disk to measure, and the
// programs.
type lab struct {
	machine  host.Machine
	records  int    // in each measurement under load
	root     string // of the repository
	docket   string // the binary under test
	unsynced string // the same without any sync; empty until buildUnsynced
	self     string // this program
	disk     string // directory on the disk to measure
	short    string // directory for sockets, whose paths must be short, and the binary
	large    bool   // the large backlog was made
	exported bool   // the export to verify was made

	profiles   string // directory for profiles of docket; empty: none
	experiment string // name of the one that runs
}

func newLab(ctx context.Context, o options) (*lab, error) {
	root, err := repositoryRoot(ctx)
	if err != nil {
		return nil, err
	}
	parent := o.dir
	if parent == "" {
		parent = filepath.Join(root, ".cache")
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return nil, err
		}
	}
	l := &lab{profiles: o.profile, records: o.records, root: root}
	if err := l.prepare(ctx, parent, o.docket); err != nil {
		l.close()
		return nil, err
	}
	if l.machine.InMemory() {
		fmt.Fprintf(os.Stderr, "bench: WARNING: %s is in memory (tmpfs): a sync costs nothing there, and no ratio means anything; use -dir\n", parent)
	}
	return l, nil
}

func (l *lab) prepare(ctx context.Context, parent, binary string) (err error) {
	if l.self, err = os.Executable(); err != nil {
		return err
	}
	if l.disk, err = os.MkdirTemp(parent, "bench-"); err != nil {
		return err
	}
	if l.short, err = os.MkdirTemp("", "bench-"); err != nil {
		return err
	}
	if l.machine, err = host.This(l.disk); err != nil {
		return err
	}
	if err := l.findDocket(ctx, binary); err != nil {
		return err
	}
	return l.warm(ctx)
}

// findDocket takes the binary that was named, or builds one.
func (l *lab) findDocket(ctx context.Context, binary string) (err error) {
	if binary == "" {
		l.docket = filepath.Join(l.short, "docket")
		return build(ctx, l.root, l.docket)
	}
	if l.docket, err = filepath.Abs(binary); err != nil {
		return err
	}
	if _, err := exec.LookPath(l.docket); err != nil {
		return fmt.Errorf("-docket: %w", err)
	}
	return nil
}

// warm writes more than any measurement, and forgets it. Memory that a virtual
// machine has never used costs several times as much on first use, and without
// this the first program would pay for it and leave it to the next: as much as
// a microsecond a record.
func (l *lab) warm(ctx context.Context) error {
	_, err := l.raw(ctx, blockRecords, 2*max(l.records, backlogRecords))
	return err
}

// close removes everything that was written.
func (l *lab) close() {
	for _, dir := range []string{l.disk, l.short} {
		if dir == "" {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
}

// scratch makes an empty directory on the disk, and lets the disk come to rest:
// what an earlier measurement has left to write must not be paid by this one.
func (l *lab) scratch() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(l.disk, "")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // close tries again and reports
	if err := rest(dir); err != nil {
		return "", nil, err
	}
	return dir, remove, nil
}

// rest returns when the disk that dir is on has nothing left to write.
func rest(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("syncfs: %w", err)
	}
	return nil
}

func repositoryRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: go list -m: %w", err)
	}
	root := strings.TrimSpace(string(out))
	if root == "" {
		return "", errors.New("find the repository: run this inside it")
	}
	return root, nil
}

// buildUnsynced makes the binary to compare with that syncs nothing.
func (l *lab) buildUnsynced() error {
	if l.unsynced != "" {
		return nil
	}
	binary := filepath.Join(l.short, "docket-nosync")
	if err := build(context.Background(), l.root, binary, "-tags", "nosync"); err != nil {
		return err
	}
	said, err := exec.Command(binary, "version").Output()
	if err != nil {
		return fmt.Errorf("%s version: %w", binary, err)
	}
	if !bytes.Contains(said, []byte("UNSAFE")) {
		return fmt.Errorf("docket built with the tag nosync says %q: it syncs, and would be compared with itself", bytes.TrimSpace(said))
	}
	l.unsynced = binary
	return nil
}

// build makes the binary that users get: its flags are those of "make build", and
// more.
func build(ctx context.Context, root, binary string, more ...string) error {
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version=bench", "-o", binary}, more...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/docket")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build docket: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// run runs this program as a process of its own and returns what it prints.
func (l *lab) run(ctx context.Context, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, l.self, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// process is a running program.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// start starts a program that runs until stop is called or ctx is done.
func start(ctx context.Context, name string, args ...string) (*process, error) {
	return startIn(ctx, nil, name, args...)
}

// startIn is start with more in the environment.
func startIn(ctx context.Context, env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// kill ends the process at once: nothing that it would still do is measured.
func (p *process) kill() {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	_ = p.cmd.Wait() // it was killed
}

// stop asks the process to end and waits until it has.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		return err
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(p.cmd.Path), err, bytes.TrimSpace(p.stderr.Bytes()))
	}
	return nil
}
