//go:build unix

// Package desk follows pages of docs/ as a person does: in an empty directory, with docket in the PATH,
// block by block.
package desk

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/internal/testinput"
)

// Desk is an empty directory, and the programs that were left running in it.
type Desk struct {
	// Dir is the directory. A test may write files into it that the reader of a page brings along.
	Dir string

	bin     string
	names   *strings.Replacer
	running []*program
}

type program struct {
	cmd   *exec.Cmd
	done  chan struct{} // closed when it has ended
	mutex sync.Mutex
	said  bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.said.Write(b)
}

func (p *program) text() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.said.String()
}

// New builds docket and makes a desk. names are pairs of a text on the page and what takes its place, such
// as an address by one that is free.
func New(t testing.TB, names ...string) *Desk {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	testinput.Packages(t, filepath.Join(root, "cli")+"/...", filepath.Join(root, "cmd")+"/...")
	d := &Desk{Dir: t.TempDir(), bin: t.TempDir(), names: strings.NewReplacer(names...)}
	build := exec.CommandContext(t.Context(), "go", "build", "-C", root, "-o", filepath.Join(d.bin, "docket"), "./cmd/docket")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Cleanup(func() { d.stop(t) })
	return d
}

// remains matches a block whose last command a person leaves running in a terminal of its own.
var remains = regexp.MustCompile(`(?m)^docket (run|tap)\b.*\n\z`)

// ready matches what such a command logs once it can be used.
var ready = regexp.MustCompile(`"source takes lines"|"serving"|listen`)

// Follow does what every step says. What a step prints must have the lines that the page shows below it, see
// [document.Shows].
func (d *Desk) Follow(t testing.TB, steps []document.Step) {
	t.Helper()
	if len(steps) == 0 {
		t.Fatal("nothing to follow: the page has no block of sh")
	}
	for _, s := range steps {
		said := d.Do(t, s.Commands)
		if err := document.Shows(said, s.Output); err != nil {
			t.Fatalf("after\n%s%v; printed was\n%s", s.Commands, err, said)
		}
	}
}

// Do runs a block of shell commands and returns what they printed. A last command that remains is left
// running until the test ends, and Do returns once it can be used.
func (d *Desk) Do(t testing.TB, commands string) string {
	t.Helper()
	commands = d.names.Replace(commands)
	if remains.MatchString(commands) && !strings.Contains(commands, "--once") {
		return d.leave(t, commands)
	}
	out, err := d.shell(commands).CombinedOutput()
	if err != nil {
		t.Fatalf("%s%v\n%s%s", commands, err, out, d.logs())
	}
	return string(out)
}

func (d *Desk) shell(commands string) *exec.Cmd {
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = d.Dir
	cmd.Env = append(os.Environ(), "PATH="+d.bin+":"+os.Getenv("PATH"), "HOME="+d.Dir)
	return cmd
}

func (d *Desk) leave(t testing.TB, commands string) string {
	t.Helper()
	p := &program{cmd: d.shell(commands), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // bash has a child
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }() // how it ended is of no interest: what it said is
	d.running = append(d.running, p)
	await.Until(t, "readiness of "+commands, func() bool {
		select {
		case <-p.done:
			t.Fatalf("%sended, after\n%s", commands, p.text())
		default:
		}
		return ready.MatchString(p.text())
	})
	return p.text()
}

// stop ends what was left running, as Ctrl-C does.
func (d *Desk) stop(t testing.TB) {
	for _, p := range d.running {
		if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
		select {
		case <-p.done:
		case <-time.After(await.Left(t)):
			t.Errorf("does not stop:\n%s", p.text())
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			<-p.done
		}
	}
	if t.Failed() {
		t.Log(d.logs())
	}
}

func (d *Desk) logs() string {
	var text strings.Builder
	for _, p := range d.running {
		text.WriteString(strings.Join(p.cmd.Args[4:], " ") + p.text())
	}
	return text.String()
}
