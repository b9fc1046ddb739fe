package nodetest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/docket-export/docket/test/internal/poll"
)

// killVariable makes this test program the one that TestKilled kills.
const killVariable = "DOCKET_TEST_KILLED"

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// A test program that is killed leaves no process, no control group and no file of its node behind.
func TestKilled(t *testing.T) {
	if os.Getenv(killVariable) != "" {
		n := Start(t)
		fmt.Printf("NODE %s %d %s\n", n.Dir, n.life.Process.Pid, n.first)
		select {}
	}
	check(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestKilled$", "-test.v")
	cmd.Env = append(os.Environ(), killVariable+"=1", "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dir, life, first, said string
	for lines := bufio.NewScanner(output); dir == "" && lines.Scan(); {
		said += lines.Text() + "\n"
		if fields := strings.Fields(lines.Text()); len(fields) == 4 && fields[0] == "NODE" {
			dir, life, first = fields[1], fields[2], fields[3]
		}
	}
	if dir == "" {
		t.Fatalf("no node was started: %v\n%s", cmd.Wait(), said)
	}
	of := func() []string { return left(t, dir, life, first) }
	if len(of()) < 3 {
		t.Errorf("the node has %v, want its processes, control groups and directory", of())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	err = poll.Until(startTimeout, func() error {
		if l := of(); len(l) > 0 {
			return fmt.Errorf("%v is left", l)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// left returns what there is of a node.
func left(t *testing.T, dir, life, first string) (left []string) {
	t.Helper()
	groups, err := filepath.Glob("/sys/fs/cgroup/*/docket-nodetest-" + life)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Concat(groups, []string{"/sys/fs/cgroup/docket-nodetest-" + life, dir, "/proc/" + life, "/proc/" + first}) {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			left = append(left, path)
		}
	}
	// No process has a file of the node in its mounts.
	mounts, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range mounts {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), dir) {
			left = append(left, file)
		}
	}
	return left
}
