package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is how long anything here may take on a busy machine.
const patience = 5 * time.Minute

// unavailable ends the test: with a failure where CI is true.
func unavailable(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// machine is a systemd in namespaces of its own, with a package installed.
type machine struct {
	t   *testing.T
	pid int // of systemd
	log *bytes.Buffer
}

// boot installs a package in a copy of this machine's files, with a command that
// gets the package as its last argument, and starts systemd there.
func boot(t *testing.T, file string, install ...string) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		unavailable(t, "root alone can start a systemd")
	}
	for _, program := range []string{"unshare", "nsenter", "systemctl", install[0]} {
		if _, err := exec.LookPath(program); err != nil {
			unavailable(t, program+" is not installed")
		}
	}
	work := t.TempDir()
	m := &machine{t: t, log: new(bytes.Buffer)}
	script, err := filepath.Abs("testdata/systemd.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", append([]string{"--mount", script, work, file}, install...)...)
	cmd.Stdout, cmd.Stderr = m.log, m.log
	end, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		if err := end.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		if t.Failed() {
			t.Logf("systemd said:\n%s", m.log)
		}
	})
	await(t, "start systemd", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("systemd has ended: %v", err)
		default:
		}
		m.pid = find(cmd.Process.Pid)
		if m.pid == 0 {
			return false
		}
		c, err := net.Dial("unix", m.path("/run/docket/docket.sock"))
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
	return m
}

// find returns the systemd among the descendants of a process, or 0.
func find(pid int) int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(children)) {
			pid, err := strconv.Atoi(child)
			if err != nil {
				continue
			}
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(name)) == "systemd" {
				return pid
			}
			if found := find(pid); found != 0 {
				return found
			}
		}
	}
	return 0
}

// path is how this machine calls a file of that one.
func (m *machine) path(name string) string { return fmt.Sprintf("/proc/%d/root%s", m.pid, name) }

// run runs a command there.
func (m *machine) run(args ...string) string {
	m.t.Helper()
	ctx, stop := context.WithTimeout(m.t.Context(), patience)
	defer stop()
	said, err := output(ctx, "/", "nsenter", append([]string{"--target", strconv.Itoa(m.pid), "--mount", "--pid", "--net", "--root", "--wd"}, args...)...)
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.TrimSpace(said)
}

// send sends record n over the socket, and fails unless it is acknowledged.
func (m *machine) send(n int) {
	m.t.Helper()
	c := m.connect(n)
	defer c.Close()
	c.await(n)
}

type connection struct {
	net.Conn
	m *machine
}

func (m *machine) connect(n int) connection {
	m.t.Helper()
	c, err := net.Dial("unix", m.path("/run/docket/docket.sock"))
	if err != nil {
		m.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		m.t.Fatal(err)
	}
	fmt.Fprintf(c, `{"docket":{"version":1,"producer":"p","next":%d}}`+"\n{\"n\":%d}\n", n, n)
	return connection{c, m}
}

func (c connection) await(n int) {
	c.m.t.Helper()
	answers := bufio.NewScanner(c)
	want := fmt.Sprintf(`{"ack":%d}`, n)
	for answers.Scan() {
		if answers.Text() == want {
			return
		}
	}
	c.m.t.Fatalf("record %d: got no %s: %v", n, want, answers.Err())
}

func (m *machine) mainPID() string {
	return m.run("systemctl", "show", "docket.service", "--property=MainPID", "--value")
}

// shown is the block of commands below a heading of docs/packages.md.
func shown(t *testing.T, heading string) string {
	t.Helper()
	_, section, found := strings.Cut(string(readFile(t, "../docs/packages.md")), heading+"\n")
	_, block, begun := strings.Cut(section, "```sh\n")
	block, _, ended := strings.Cut(block, "```\n")
	if !found || !begun || !ended {
		t.Fatalf("docs/packages.md has no commands below %q", heading)
	}
	return block
}

// The packages install a service that systemd starts with its socket, as a user of its own and with
// all that the unit forbids. A producer waits in the socket while there is no docket.
func TestService(t *testing.T) {
	release := getRelease(t)
	for name, install := range map[string][]string{
		"deb": {"dpkg", "--install"},
		"rpm": {"rpm", "--install", "--nodeps"},
	} {
		t.Run(name, func(t *testing.T) {
			m := boot(t, release.artifact(t, "."+name), install...)
			m.send(1)
			for _, file := range []string{"/usr/share/man/man1/docket-run.1.gz", "/usr/share/doc/docket/NOTICE", "/usr/share/bash-completion/completions/docket"} {
				if _, err := os.Stat(m.path(file)); err != nil {
					t.Error(err)
				}
			}
			if got, want := m.run("stat", "--format=%U:%G %a", "/run/docket/docket.sock"), "docket:docket 660"; got != want {
				t.Errorf("got socket %s, want %s", got, want)
			}
			if got, want := m.run("stat", "--format=%U:%G", "/var/lib/docket/queue"), "docket:docket"; got != want {
				t.Errorf("got queue of %s, want %s", got, want)
			}

			m.run("bash", "-euo", "pipefail", "-c", shown(t, "## Install"))

			first := m.mainPID()
			m.run("systemctl", "reload", "docket.service")
			if m.mainPID() != first {
				t.Error("systemctl reload started another docket")
			}
			m.run("systemctl", "stop", "docket.service")
			if got := m.run("systemctl", "show", "docket.service", "--property=Result", "--value"); got != "success" {
				t.Errorf("stopped: got %s, want success", got)
			}
			waiting := m.connect(2) // which starts it again
			defer waiting.Close()
			waiting.await(2)

			m.run("kill", "-KILL", m.mainPID())
			m.send(3)
			if got := m.mainPID(); got == first || got == "0" {
				t.Errorf("got process %s after a kill, want another than %s", got, first)
			}
			await(t, "export", func() bool {
				exported, err := os.ReadFile(m.path("/var/lib/docket/export/decisions-active.ndjson"))
				return err == nil && string(exported) == "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n"
			})
		})
	}
}

// Removing the package ends the service and leaves what may hold records.
func TestRemove(t *testing.T) {
	m := boot(t, getRelease(t).artifact(t, ".deb"), "dpkg", "--install")
	m.send(1)
	m.run("dpkg", "--remove", "docket")
	if _, err := net.Dial("unix", m.path("/run/docket/docket.sock")); err == nil {
		t.Error("the socket is still served")
	}
	if _, err := os.Stat(m.path("/var/lib/docket/queue")); err != nil {
		t.Error(err)
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		unavailable(t, "systemd-analyze is not installed")
	}
	dir := t.TempDir()
	for _, unit := range []string{"docket.service", "docket.socket"} {
		text := strings.ReplaceAll(string(readFile(t, "../packaging/"+unit)), "/usr/bin/docket", "/bin/true")
		if err := os.WriteFile(filepath.Join(dir, unit), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", filepath.Join(dir, "docket.service"), filepath.Join(dir, "docket.socket")).CombinedOutput()
	if err != nil || len(said) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, said)
	}
}
