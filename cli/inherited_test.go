package cli

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/client/clienttest/await"
)

// TestInheritedSocket: a socket that was there before docket serves one docket
// after the other. A producer that connects while there is none waits.
func TestInheritedSocket(t *testing.T) {
	config, _ := testConfig(t)
	writeFile(t, config, strings.Replace(readFile(t, config), "unix: {path: docket.sock}", "unix: {inherited: webhook}", 1))
	ln, err := net.Listen("unix", "docket.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	socket, err := ln.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()

	for next := 1; next <= 2; next++ {
		producer, err := net.Dial("unix", "docket.sock")
		if err != nil {
			t.Fatal(err)
		}
		defer producer.Close()
		if err := producer.SetDeadline(time.Now().Add(await.Left(t))); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(producer, `{"docket":{"version":1,"producer":"p","next":%d}}`+"\n{\"n\":%d}\n", next, next)

		p := newProcess(t, "run", "-f", config)
		// As systemd starts it; the shell knows the number of the process to be.
		shell := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=webhook exec "$0" "$@"`}, p.cmd.Args...)...)
		shell.Stderr, shell.ExtraFiles = p.cmd.Stderr, []*os.File{socket}
		p.cmd = shell
		p.start()
		answers := bufio.NewReader(producer)
		for _, want := range []string{fmt.Sprintf(`{"docket":{"version":1,"acked":%d}}`, next-1), fmt.Sprintf(`{"ack":%d}`, next)} {
			if got, err := answers.ReadString('\n'); got != want+"\n" {
				t.Fatalf("got answer %q, %v, want %s:\n%s", got, err, want, p.stderr())
			}
		}
		producer.Close()
		p.interrupt()
		if got := p.wait(); got != command.ExitOK {
			t.Errorf("got exit code %d, want %d:\n%s", got, command.ExitOK, p.stderr())
		}
	}
	if _, err := os.Lstat("docket.sock"); err != nil {
		t.Errorf("got %v, want the socket left to its owner", err)
	}
	if got, want := readFile(t, "export/decisions-active.ndjson"), "{\"n\":1}\n{\"n\":2}\n"; got != want {
		t.Errorf("got export %q, want %q", got, want)
	}
}
