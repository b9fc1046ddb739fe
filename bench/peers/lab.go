package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/host"
)

// lab is where the peers are measured: a directory on the disk, and the programs.
type lab struct {
	machine host.Machine
	records int    // in each measurement under load
	self    string // this program
	disk    string // directory on the disk
	short   string // directory for sockets, whose paths must be short, and the binary
	// installed is where each peer lies, by its name.
	installed map[string]installation
}

func newLab(ctx context.Context, o options, chosen []contender) (*lab, error) {
	root, err := repositoryRoot(ctx)
	if err != nil {
		return nil, err
	}
	cache := filepath.Join(root, ".cache")
	parent := o.dir
	if parent == "" {
		parent = cache
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	l := &lab{records: o.records, installed: map[string]installation{}}
	if err := l.prepare(parent); err != nil {
		l.close()
		return nil, err
	}
	if err := l.install(ctx, root, filepath.Join(cache, "peers"), chosen); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) prepare(parent string) (err error) {
	if l.self, err = os.Executable(); err != nil {
		return err
	}
	if l.disk, err = os.MkdirTemp(parent, "bench-peers-"); err != nil {
		return err
	}
	if l.short, err = os.MkdirTemp("", "peers-"); err != nil {
		return err
	}
	if l.machine, err = host.This(l.disk); err != nil {
		return err
	}
	if l.machine.InMemory() {
		fmt.Fprintf(os.Stderr, "peers: WARNING: %s is in memory (tmpfs): a sync costs nothing there; use -dir\n", parent)
	}
	return l.warm()
}

// warm writes more than any measurement, and forgets it. Memory that a virtual
// machine has never used costs several times as much on first use, and without this
// the first program would pay for all.
func (l *lab) warm() error {
	f, err := os.CreateTemp(l.disk, "")
	if err != nil {
		return err
	}
	defer f.Close()
	piece := make([]byte, 1<<20)
	for written := 0; written < 2*l.records*recordBytes; written += len(piece) {
		if _, err := f.Write(piece); err != nil {
			return err
		}
	}
	return os.Remove(f.Name())
}

// install makes every peer that is chosen ready to start.
func (l *lab) install(ctx context.Context, root, cache string, chosen []contender) error {
	for _, c := range chosen {
		if _, ok := l.installed[c.peer.name]; ok {
			continue
		}
		var in installation
		var err error
		if len(c.packages) == 0 {
			in = installation{root: l.short, version: "this tree"}
			err = build(ctx, root, in.binary(c.peer.name))
		} else {
			in, err = unpack(ctx, cache, c.peer)
		}
		if err != nil {
			return err
		}
		l.installed[c.peer.name] = in
	}
	return nil
}

// close removes everything that was written, but not the unpacked packages.
func (l *lab) close() {
	for _, dir := range []string{l.disk, l.short} {
		if dir == "" {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "peers:", err)
		}
	}
}

// scratch makes an empty directory on the disk, and lets the disk come to rest: what
// an earlier measurement has left to write must not be paid by this one.
func (l *lab) scratch() (string, error) {
	dir, err := os.MkdirTemp(l.disk, "")
	if err != nil {
		return "", err
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return "", fmt.Errorf("syncfs: %w", err)
	}
	return dir, nil
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

// build makes the binary that users get: its flags are those of "make build".
func build(ctx context.Context, root, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version=bench", "-o", binary, "./cmd/docket")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build docket: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// stand is a contender that is measured, with what it sends to and what it keeps.
type stand struct {
	contender
	lab     *lab
	at      place
	file    string       // its configuration
	running *process     // nil: it does not run
	sink    *destination // nil: it is down
	next    int          // number of the next record of each producer
	sent    int          // records of all loads so far
	written arrivals     // in files, as far as arrived has looked
}

// newStand makes a place for c. With toFile it writes files there; else it sends
// to a destination that is down until openSink. In memory, its queue holds so many
// records; 0: its default.
func (l *lab) newStand(c contender, toFile bool, memoryRecords int) (*stand, error) {
	dir, err := l.scratch()
	if err != nil {
		return nil, err
	}
	s := &stand{contender: c, lab: l, file: filepath.Join(dir, c.template)}
	s.at = place{
		Setting: c.setting.name, Directory: filepath.Join(dir, "data"), MemoryRecords: memoryRecords,
		Socket: filepath.Join(l.short, "peer.sock"),
	}
	if err := os.Mkdir(s.at.Directory, 0o700); err != nil {
		return nil, err
	}
	if toFile {
		s.at.Export = filepath.Join(dir, "export")
		if err := os.Mkdir(s.at.Export, 0o700); err != nil {
			return nil, err
		}
	}
	if s.at.Admin, err = freeAddress(); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	if s.at.Host, s.at.Port, err = net.SplitHostPort(address); err != nil {
		return nil, err
	}
	text, err := c.config(s.at)
	if err != nil {
		return nil, err
	}
	return s, os.WriteFile(s.file, text, 0o600)
}

// freeAddress returns a loopback address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// readyWait is how long a program may take to start on a busy machine.
const readyWait = 10 * time.Second

// start starts the contender and returns when its socket takes connections.
func (s *stand) start(ctx context.Context) error {
	if err := os.Remove(s.at.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p, err := start(ctx, s.command(s.lab.installed[s.peer.name], s.file, s.at))
	if err != nil {
		return err
	}
	s.running = p
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	err = host.Poll(ctx, time.Millisecond, func() (bool, error) {
		nc, err := net.Dial("unix", s.at.Socket)
		if err == nil {
			nc.Close()
		}
		return err == nil, nil
	})
	if err != nil {
		p.kill()
		return errors.Join(fmt.Errorf("waiting for its socket: %w", err), p.lastWords())
	}
	return nil
}

// kill ends the contender as SIGKILL does.
func (s *stand) kill() {
	if s.running != nil {
		s.running.kill()
	}
}

// openSink brings up the destination.
func (s *stand) openSink(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, s.lab.self, receiveCommand, net.JoinHostPort(s.at.Host, s.at.Port))
	d := &destination{process: &process{cmd: cmd}}
	cmd.Stderr = &d.stderr
	if _, err := cmd.StdinPipe(); err != nil { // which tells it when this process ends
		return err
	}
	says, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(says).ReadString('\n')
	if err != nil {
		d.kill()
		return errors.Join(fmt.Errorf("start the destination: %w", err), d.lastWords())
	}
	d.address = strings.TrimSpace(line)
	s.sink = d
	return nil
}

// load makes the producers send so many records, rate a second or as fast as they are
// taken, and returns when all that were sent until the limit were taken.
func (s *stand) load(ctx context.Context, records, rate int, limit time.Duration) (produced, error) {
	var p produced
	o := load{socket: s.at.Socket, first: s.next, records: records, limit: limit, rate: rate, acknowledged: s.acknowledged}
	out, err := output(ctx, "", s.lab.self, o.args()...)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return p, err
	}
	s.next += o.each()
	s.sent += p.Records
	return p, nil
}

// close ends everything and removes what was kept.
func (s *stand) close() {
	s.kill()
	if s.sink != nil {
		s.sink.kill()
	}
	_ = os.RemoveAll(filepath.Dir(s.file)) // lab.close tries again and reports
}
