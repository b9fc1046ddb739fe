package cli

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const page = "../../../docs/webhook.md"

var (
	fenced  = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	remains = regexp.MustCompile(`^(docket run|docket-webhook --policy-dir)`) // in a terminal of its own
)

// freePort returns a port that nobody uses.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Whoever follows the page in an empty directory sees what it shows.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "docket"), "github.com/docket-export/docket/cmd/docket")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	webhook, health, metrics := freePort(t), freePort(t), freePort(t)
	// The server has other ports than on the page, where they may be taken.
	script := fmt.Sprintf("#!/bin/sh\nexport %s=1\ncase $1 in --policy-dir) exec %q \"$@\" --port %s --health-addr localhost:%s --prometheus-port %s;; esac\nexec %q \"$@\"\n",
		asProgram, self, webhook, health, metrics, self)
	if err := os.WriteFile(filepath.Join(bin, "docket-webhook"), []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	ports := strings.NewReplacer("localhost:8443", "localhost:"+webhook, "localhost:9090", "localhost:"+health)
	dir := t.TempDir()
	shell := func(commands string) *exec.Cmd {
		cmd := exec.Command("bash", "-uc", ports.Replace(commands))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		return cmd
	}
	blocks := fenced.FindAllStringSubmatch(string(text), -1)
	for i, b := range blocks {
		if b[1] != "sh" {
			continue
		}
		if remains.MatchString(b[2]) {
			remain(t, shell("exec "+b[2]))
			continue
		}
		want := ""
		if i+1 < len(blocks) && blocks[i+1][1] == "text" {
			want = blocks[i+1][2]
		}
		// What a person does takes longer than what is awaited here.
		for deadline := time.Now().Add(5 * time.Minute); ; {
			out, err := shell(b[2]).CombinedOutput()
			missing := shows(string(out), want)
			if err == nil && missing == "" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s\nended with %v and printed\n%s\nThe page shows\n%s", b[2], err, out, missing)
			}
		}
	}
}

// remain runs a command until the test ends.
func remain(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
}

// shows returns the first line of a page that said does not have, in their order. … stands for
// any text.
func shows(said, page string) string {
	lines := strings.Split(said, "\n")
	for want := range strings.Lines(page) {
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", ".*") + "$")
		for len(lines) > 0 && !pattern.MatchString(strings.TrimSpace(lines[0])) {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			return want
		}
		lines = lines[1:]
	}
	return ""
}
