//go:build soak && unix

// Package quickstart follows docs/quickstart.md.
package quickstart

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/document/desk"
	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/internal/testcli"
)

// again matches a block that can be run again. Its output may be a moment away: docket
// delivers, and a program starts, beside the reader.
var again = regexp.MustCompile(`\A(cat [a-z]|grep|docket (status|retry|verify export))`)

// stops is the block that stops docket. The reader waits for the end before the next.
const stops = "kill \"$(head -n 1 queue/lock)\"\n"

// follow does what the steps say. A block that can be run again is run until it prints
// what the page shows.
func follow(t *testing.T, d *desk.Desk, steps []document.Step) {
	t.Helper()
	for _, s := range steps {
		if strings.HasPrefix(s.Commands, "kill -9 ") { // a reader is not as fast as the kernel
			s.Commands = "killed=$(head -n 1 queue/lock)\n" + s.Commands + "while kill -0 $killed 2>&-; do sleep 0.05; done\n"
		}
		if !again.MatchString(s.Commands) || !shows(t, d, s) {
			d.Follow(t, []document.Step{s})
		}
		if s.Commands == stops {
			shows(t, d, document.Step{Commands: "docket status -f docket.yaml 2>&1\n", Output: "nothing listens\n"})
		}
	}
}

// shows runs a block until it prints what the page shows, or no time is left.
func shows(t *testing.T, d *desk.Desk, s document.Step) bool {
	t.Helper()
	for deadline := time.Now().Add(await.Left(t)); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if document.Shows(d.Do(t, "(\n"+s.Commands+") || true\n"), s.Output) == nil {
			return true
		}
	}
	return false
}

func freePort(t *testing.T) string {
	t.Helper()
	address, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// tree returns shell commands that copy this working tree, which is what a clone will be.
func tree(t *testing.T) string {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	return "mkdir docket && tar -C '" + root + "' --exclude ./.cache --exclude ./.git --exclude ./bin -cf - . | tar -C docket -xf -"
}

// keepCaches lets a build in a home directory of its own use what this machine has.
func keepCaches(t *testing.T) {
	t.Helper()
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, strings.TrimSpace(string(value)))
	}
}

func TestQuickstart(t *testing.T) {
	keepCaches(t)
	d := desk.New(t, "git clone https://github.com/docket-export/docket.git", tree(t), "9464", freePort(t), "8099", freePort(t))
	t.Cleanup(func() { // of a test that failed before the page stops the receiver
		text, err := os.ReadFile(filepath.Join(d.Dir, "receiver.pid"))
		if pid, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil && t.Failed() {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	})
	follow(t, d, document.Read(t, "quickstart.md").Steps())
}
