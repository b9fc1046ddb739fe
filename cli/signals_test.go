package cli

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/internal/command"
)

// silentExporter takes one sender's lines, in docket.sock of the current directory, and
// acknowledges none until it is told to.
type silentExporter struct{ conn net.Conn }

// sendTo starts docket send of two lines to a silentExporter that has both.
func sendTo(t *testing.T) (*process, silentExporter) {
	t.Helper()
	t.Chdir(t.TempDir())
	writeFile(t, "lines.ndjson", "{\"n\":1}\n{\"n\":2}\n")
	listener, err := net.Listen("unix", "docket.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	p := startProcess(t, "send", "--socket", "docket.sock", "lines.ndjson")
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	e := silentExporter{conn}
	lines := bufio.NewReader(conn)
	for range 3 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, `{"docket":`) {
			e.say(t, `{"docket":{"version":1,"acked":0}}`)
		}
	}
	return p, e
}

func (e silentExporter) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(e.conn, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (p *process) says(text string) {
	p.t.Helper()
	eventually(p.t, text, func() bool { return strings.Contains(p.stderr(), text) })
}

func (p *process) ends(code int, lastLine string) {
	p.t.Helper()
	if got := p.wait(); got != code {
		p.t.Errorf("got exit code %d, want %d", got, code)
	}
	if got := p.stderr(); !strings.HasSuffix(got, lastLine+"\n") {
		p.t.Errorf("got %q, want %q at its end", got, lastLine)
	}
}

// A sender says what it waits for. The first Ctrl-C waits on, and says so; the second
// one says how far it has come.
func TestSendSaysWhatItWaitsFor(t *testing.T) {
	p, _ := sendTo(t)
	p.says("waiting for 2 acknowledgements: docket status says what docket waits for; press Ctrl-C to stop sending\n")
	p.interrupt()
	p.says("waiting for 2 acknowledgements, press Ctrl-C again to give up\n")
	p.interrupt()
	p.ends(command.ExitFailed, "docket send: gave up: 0 of 2 lines acknowledged")
}

// What is acknowledged after a Ctrl-C is stored: nothing has gone wrong.
func TestSendStoresAllAfterCtrlC(t *testing.T) {
	p, e := sendTo(t)
	p.interrupt()
	p.says("press Ctrl-C again to give up\n")
	e.say(t, `{"ack":2}`)
	p.ends(command.ExitOK, "waiting for 2 acknowledgements, press Ctrl-C again to give up")
}
