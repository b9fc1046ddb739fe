package disk

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestHolder(t *testing.T) {
	own := identity{pid: "7", host: "web-0", namespace: "pid:[2]", container: "docket"}
	for name, tt := range map[string]struct{ text, want string }{
		"our namespace":      {string(identity{"1", "web-0", "pid:[2]", "docket"}.text()), "process 1"},
		"another container":  {string(identity{"1", "web-0", "pid:[3]", "rescue"}.text()), "process 1 of container rescue on host web-0"},
		"another host":       {string(identity{"1", "web-1", "pid:[2]", "docket"}.text()), "process 1 of container docket on host web-1"},
		"no container known": {string(identity{"9", "node", "pid:[1]", ""}.text()), "process 9 on host node, in another pid namespace"},
		"earlier version":    {"12\n", "process 12"},
		"empty":              {"", "another process"},
		"being written":      {"1", "process 1"},
		"no names":           {"1\n\x1b[2Jweb\r\npid:[2]\na\u202eb\n", "process 1 of container a?b on host ??2Jweb?"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := holderOf(tt.text, own).String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if n := len(identity{"4194304", strings.Repeat("h", 64), "pid:[4294967295]", strings.Repeat("c", 63)}.text()); n > maxIdentity {
		t.Errorf("the longest text has %d bytes, want at most %d", n, maxIdentity)
	}
}

func TestContainerOf(t *testing.T) {
	for name, tt := range map[string]struct{ mounts, want string }{
		"pod": {"1 2 8:1 /lib/kubelet/pods/0f1e/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n" +
			"3 2 8:1 /var/lib/kubelet/pods/0f1e/containers/docket/9a8b /dev/termination-log rw - ext4 /dev/sda1 rw\n", "docket"},
		"node, of its pods": {"3 2 0:7 / /var/lib/kubelet/pods/0f1e/volumes/kubernetes.io~projected/token rw - tmpfs tmpfs rw\n", ""},
		"none":              {"short line\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := containerOf(strings.NewReader(tt.mounts)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// holderEnv names the file that a process in a pid namespace of its own locks.
const holderEnv = "DOCKET_TEST_HOLDER"

// A lock of a process in another pid namespace names its host: its pid is 1 there.
func TestLockAcrossNamespaces(t *testing.T) {
	if name := os.Getenv(holderEnv); name != "" {
		must(t, syscall.Sethostname([]byte("web-0")))
		l, err := At(name).Lock()
		must(t, err)
		fmt.Println("locked")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		must(t, l.Close())
		return
	}
	name := At(t.TempDir()).Join("lock")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLockAcrossNamespaces$")
	cmd.Env = append(os.Environ(), holderEnv+"="+name.String())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.StdoutPipe()
	must(t, err)
	in, err := cmd.StdinPipe()
	must(t, err)
	if err := cmd.Start(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("no namespaces of our own here: %v", err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Errorf("got %q, %v, want the lock", line, err)
	}
	_, err = name.Lock()
	inUse, ok := errors.AsType[*InUseError](err)
	if want := "process 1 on host web-0, in another pid namespace"; !ok || inUse.Holder.String() != want {
		t.Errorf("got %v, want in use by %s", err, want)
	}
	must(t, in.Close())
	must(t, cmd.Wait())
}
