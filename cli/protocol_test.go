package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

const vectors = "../testdata/protocol"

// TestProtocolVectors plays each case of docs/protocol.md to a docket.
func TestProtocolVectors(t *testing.T) {
	t.Parallel()
	for name, text := range readVectors(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := play(t, text); err != nil {
				t.Error(err)
			}
		})
	}
}

func readVectors(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(vectors, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases in %s: %v", vectors, err)
	}
	texts := make(map[string]string)
	for _, path := range paths {
		texts[filepath.Base(path)] = readFile(t, path)
	}
	return texts
}

var times = regexp.MustCompile(`<(.)\*(\d+)>`)

// spelled writes out what stands for other text.
func spelled(text string) string {
	text = times.ReplaceAllStringFunc(text, func(short string) string {
		m := times.FindStringSubmatch(short)
		n, _ := strconv.Atoi(m[2])
		return strings.Repeat(m[1], n)
	})
	return strings.ReplaceAll(text, "␍", "\r")
}

// like reports whether a line is as a case says.
func like(line, want string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(line)
}

// player plays a case.
type player struct {
	t       *testing.T
	dir     string
	admin   string
	docket  *process
	conns   []*producerConn
	on      *producerConn
	stored  []string
	stopped bool
}

type producerConn struct {
	*net.UnixConn
	in *bufio.Reader
}

const playerConfig = `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: remote
  unix: {path: docket.sock}
queue: {directory: queue, maxBytes: 16Mi}
sinks:
- name: files
  file: {directory: export}
admin: {address: "ADMIN"}
`

// play plays a case and returns where docket did something else.
func play(t *testing.T, text string) error {
	t.Helper()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	p := &player{t: t, dir: t.TempDir(), admin: admin}
	n := 0
	for line := range strings.Lines(spelled(text)) {
		n++
		if err := p.step(strings.TrimSuffix(line, "\n")); err != nil {
			return fmt.Errorf("line %d: %.200s: %w", n, strings.TrimSuffix(line, "\n"), err)
		}
	}
	for _, c := range p.conns {
		c.Close()
	}
	return p.compareStored()
}

func (p *player) step(line string) error {
	op, rest, _ := strings.Cut(line, " ")
	switch op {
	case "#", "config:":
		return p.configure(op, rest)
	case "before:":
		return p.begin(rest)
	case ">", ">!":
		return p.send(rest + "\n")
	case ">>":
		return p.send(rest)
	case "<":
		return p.expect(rest)
	case "=":
		return p.do(rest)
	}
	return errors.New("is not understood")
}

func (p *player) configure(op, rest string) error {
	if op == "#" {
		return nil
	}
	p.docket.kill()
	file := filepath.Join(p.dir, "docket.yaml")
	writeFile(p.t, file, readFile(p.t, file)+rest+"\n")
	p.start()
	return nil
}

func (p *player) begin(string) error {
	writeFile(p.t, filepath.Join(p.dir, "docket.yaml"), strings.ReplaceAll(playerConfig, "ADMIN", p.admin))
	p.start()
	return nil
}

func (p *player) start() {
	p.t.Helper()
	p.docket = newProcessIn(p.t, p.dir, "run", "-f", "docket.yaml")
	p.docket.start()
	if err := waitReady(p.t, p.admin); err != nil {
		p.t.Fatalf("%v\n%s", err, p.docket.stderr())
	}
}

func (p *player) dial() (*producerConn, error) {
	nc, err := net.Dial("unix", filepath.Join(p.dir, "docket.sock"))
	if err != nil {
		return nil, err
	}
	return &producerConn{nc.(*net.UnixConn), bufio.NewReader(nc)}, nc.SetDeadline(time.Now().Add(await.Left(p.t)))
}

func (p *player) send(text string) error {
	_, err := io.WriteString(p.on, text)
	return err
}

func (p *player) expect(want string) error {
	var wanted, got struct{ Ack *uint64 }
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		return err
	}
	for {
		line, err := p.on.in.ReadString('\n')
		if err != nil {
			return err
		}
		if line = strings.TrimSuffix(line, "\n"); like(line, want) {
			return nil
		}
		got.Ack = nil
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			return err
		}
		if got.Ack == nil || wanted.Ack != nil && *got.Ack >= *wanted.Ack {
			return fmt.Errorf("got %s", line)
		}
	}
}

func (p *player) do(what string) (err error) {
	verb, rest, _ := strings.Cut(what, " ")
	switch verb {
	case "connect":
		p.on, err = p.dial()
		p.conns = append(p.conns, p.on)
	case "on":
		var n int
		n, err = strconv.Atoi(rest)
		p.on = p.conns[n-1]
	case "half-close":
		err = p.on.CloseWrite()
	case "close":
		err = p.on.Close()
	case "replies":
		_, err = io.Copy(io.Discard, p.on.in)
	case "end":
		var left []byte
		if left, err = io.ReadAll(p.on.in); err == nil && len(left) > 0 {
			err = fmt.Errorf("got %q", left)
		}
	case "kill":
		p.docket.kill()
	case "start":
		p.start()
	case "stop":
		p.stopped = true
		p.docket.interrupt()
	case "ledger:":
		lost := uint64(0)
		waitStatus(p.t, p.admin, func(s exporter.Status) bool {
			lost = 0
			for _, n := range s.Ledger.Lost {
				lost += n
			}
			return lost > 0
		})
		if fmt.Sprint(lost, " lost") != rest {
			err = fmt.Errorf("got %d", lost)
		}
	case "stored":
		p.stored = append(p.stored, rest)
	default:
		err = errors.New("is not understood")
	}
	return err
}

// compareStored compares what docket exports until its end.
func (p *player) compareStored() error {
	if !p.stopped {
		p.docket.interrupt()
	}
	if got := p.docket.wait(); got != command.ExitOK {
		return fmt.Errorf("got exit code %d of docket:\n%s", got, p.docket.stderr())
	}
	text, err := os.ReadFile(filepath.Join(p.dir, "export/decisions-active.ndjson"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(text) == 0 {
		got = nil
	}
	for i := range max(len(got), len(p.stored)) {
		if i >= len(got) || i >= len(p.stored) || !like(got[i], p.stored[i]) {
			return fmt.Errorf("stored: got %.300q, want %.300q", got, p.stored)
		}
	}
	return nil
}
