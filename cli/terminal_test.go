package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/exporter/queue"
)

// pseudoTerminal returns both ends of a terminal.
func pseudoTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	master = open("/dev/ptmx")
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return master, open(fmt.Sprintf("/dev/pts/%d", n))
}

// onTerminal runs the program on a terminal and returns what that shows.
func onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	master, slave := pseudoTerminal(t)
	cmd := exec.Command("docket", args...)
	cmd.Stdout, cmd.Stderr = slave, slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	shown, err := io.ReadAll(master)
	if err != nil && !errors.Is(err, syscall.EIO) { // which a terminal says when nobody has it open
		t.Fatal(err)
	}
	cmd.Wait() // the exit code is not what is asked for
	return strings.ReplaceAll(string(shown), "\r\n", "\n")
}

// What a producer has sent steers no terminal, whatever shows it. A pipe gets its bytes.
func TestRecordsDoNotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	const hostile = "{\"m\":\"\u009b31m\u202e\u200b\u2028 déjà\"}"
	const visible = `{"m":"\u009b31m\u202e\u200b\u2028 déjà"}`
	dir := filepath.Join(t.TempDir(), "queue")
	q, err := queue.Open(queue.Options{Directory: dir})
	if err != nil {
		t.Fatal(err)
	}
	settled := make(chan struct{})
	chunk := &queue.Chunk{Source: "local", Received: time.Now(), Count: 1, Lines: 1, Records: []byte(hostile + "\n")}
	if err := q.Append(t.Context(), chunk, func() { close(settled) }); err != nil {
		t.Fatal(err)
	}
	<-settled
	if err := q.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "docket.yaml")
	writeFile(t, config, fmt.Sprintf("apiVersion: docket.dev/v1alpha1\nkind: Exporter\nsources: [{name: local, unix: {path: s}}]\nqueue: {directory: %q}\nsinks: [{name: a, stdout: {}}]\n", dir))
	for _, args := range [][]string{{"queue", "cat", "-f", config}, {"query", "-f", config}} {
		if got := onTerminal(t, args...); !strings.Contains(got, visible) {
			t.Errorf("docket %s shows %q, want %q in it", strings.Join(args, " "), got, visible)
		}
		if got, _, _ := docket(t, args...); !strings.Contains(got, hostile) {
			t.Errorf("docket %s writes %q to a pipe, want %q in it", strings.Join(args, " "), got, hostile)
		}
	}
	if got := onTerminal(t, "queue", "cat", "-f", "\u009b31m\u202e.yaml"); bytes.ContainsAny([]byte(got), "\u009b\u202e") {
		t.Errorf("an error shows %q, want its controls escaped", got)
	}
}
