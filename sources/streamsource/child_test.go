package streamsource

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/docket-export/docket/config"
)

// childRole is the environment variable that turns this test binary into another
// process: what is done there the operating system attributes to somebody else.
const childRole = "DOCKET_STREAMSOURCE_CHILD"

// children are the roles. Each gets the arguments of newChild and says one line.
var children = map[string]func(args []string) error{
	"listen":    childListens,
	"listenFor": childListensFor,
	"connect":   childConnects,
}

func runChild(role string) {
	if err := children[role](os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// childListens listens at a path until it is killed.
func childListens(args []string) error {
	if _, err := listenUnix(context.Background(), args[0], access{mode: 0o660, gid: config.OwnGroup}); err != nil {
		return err
	}
	fmt.Println("listening")
	_, err := io.Copy(io.Discard, os.Stdin) // until the test has enough of us
	return err
}

// become makes the process one of another user, and of no group.
func become(user string) error {
	uid, err := strconv.Atoi(user)
	if err != nil || uid == os.Getuid() {
		return err
	}
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid))
}

// childListensFor becomes another user and listens at a path for a group.
func childListensFor(args []string) error {
	if err := become(args[0]); err != nil {
		return err
	}
	gid, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	_, err = listenUnix(context.Background(), args[1], access{mode: 0o660, gid: gid})
	return err
}

// childConnects becomes another user, says hello and says what comes back.
func childConnects(args []string) error {
	if err := become(args[0]); err != nil {
		return err
	}
	nc, err := net.Dial("unix", args[1])
	if err != nil {
		return err
	}
	if _, err := io.WriteString(nc, `{"docket":{"version":1,"producer":"child","next":1}}`+"\n"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(nc).ReadString('\n')
	fmt.Print(answer)
	return err
}

// childProcess is this test binary in another role.
type childProcess struct {
	*exec.Cmd
	t   *testing.T
	out *bufio.Reader
}

func newChild(t *testing.T, role string, args ...string) *childProcess {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), childRole+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	if _, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return &childProcess{Cmd: cmd, t: t, out: bufio.NewReader(out)}
}

// start starts the process and returns the first line that it says.
func (c *childProcess) start() string {
	c.t.Helper()
	if err := c.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { kill(c.Cmd) })
	return c.line()
}

// line returns the next line that the process says.
func (c *childProcess) line() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("child: got %q, %v, want a line", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
