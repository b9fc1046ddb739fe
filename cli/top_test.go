package cli

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
)

// topScreen is a terminal of 80 by 24 on which docket top runs, as a shell would start it.
type topScreen struct {
	t             *testing.T
	cmd           *exec.Cmd
	master, slave *os.File
	before        unix.Termios
	read          chan struct{} // closed when the terminal shows no more

	mu    sync.Mutex
	shown []byte // guarded by mu
}

func startTop(t *testing.T, env []string, args ...string) *topScreen {
	t.Helper()
	s := &topScreen{t: t, read: make(chan struct{})}
	s.master, s.slave = pseudoTerminal(t)
	s.resize(80, 24)
	s.before = s.modes()
	s.cmd = exec.Command("docket", append([]string{"top"}, args...)...)
	s.cmd.Env = append(append(os.Environ(), "TERM=xterm", "NO_COLOR="), env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = s.slave, s.slave, s.slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill() })
	go func() {
		defer close(s.read)
		piece := make([]byte, 4096)
		for {
			n, err := s.master.Read(piece)
			s.mu.Lock()
			s.shown = append(s.shown, piece[:n]...)
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

func (s *topScreen) resize(width, height uint16) {
	s.t.Helper()
	if err := unix.IoctlSetWinsize(int(s.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *topScreen) modes() unix.Termios {
	s.t.Helper()
	modes, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *modes
}

func (s *topScreen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.shown)
}

// pictureForm is one picture: from the home of the cursor until the rest is cleared.
var pictureForm = regexp.MustCompile(`(?s)\x1b\[H(.*?)\x1b\[J`)

// picture is what the terminal shows now, "" before the first.
func (s *topScreen) picture() string {
	all := pictureForm.FindAllStringSubmatch(s.text(), -1)
	if len(all) == 0 {
		return ""
	}
	return strings.ReplaceAll(strings.ReplaceAll(all[len(all)-1][1], "\x1b[K", ""), "\r\n", "\n")
}

func (s *topScreen) awaitPicture(want string) {
	s.t.Helper()
	eventually(s.t, "a picture with "+want, func() bool { return strings.Contains(s.picture(), want) })
}

// leave checks that top has ended well and has given the terminal back as it was.
func (s *topScreen) leave() {
	s.t.Helper()
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("docket top ends with %v, want exit code 0", err)
	}
	if got := s.modes(); got != s.before {
		s.t.Errorf("got the modes %+v of the terminal, want those before, %+v", got, s.before)
	}
	s.slave.Close()
	<-s.read
	const back = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	if got := s.text(); !strings.HasSuffix(got, back) {
		s.t.Errorf("got %q at the end, want %q", got[max(0, len(got)-60):], back)
	}
}

// docket top follows docket and the size of its terminal, outlasts an end of docket, and
// gives the terminal back at q.
func TestTop(t *testing.T) {
	config, admin := testConfig(t)
	running := startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	writeFile(t, "lines.ndjson", strings.Repeat("{\"n\":1}\n", 321))
	if _, stderr, code := docket(t, "send", "-f", config, "lines.ndjson"); code != command.ExitOK {
		t.Fatal(stderr)
	}
	s := startTop(t, nil, "-f", config)
	s.awaitPicture("received 321 = stored 321")
	if got := s.picture(); !strings.Contains(got, "\x1b[1mlocal") || !strings.Contains(got, "q quits") {
		t.Errorf("got the picture %q, want colours, the source and the key to leave", got)
	}
	s.resize(30, 6) // no room for the row of the sink
	eventually(t, "a picture of 30 by 6", func() bool {
		lines := strings.Split(regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(s.picture(), ""), "\n")
		for _, l := range lines {
			if utf8.RuneCountInString(l) > 30 {
				return false
			}
		}
		return len(lines) <= 6 && strings.HasPrefix(lines[len(lines)-1], "SINK")
	})
	s.resize(80, 24)
	running.cmd.Process.Kill()
	running.wait()
	s.awaitPicture("Connection lost ")
	s.awaitPicture("received 321 = stored 321")
	startProcess(t, "run", "-f", config)
	s.awaitPicture("All well")
	s.master.WriteString("q")
	s.leave()
}

// However top is ended, the terminal is as it was.
func TestTopLeavesTheTerminal(t *testing.T) {
	config, _ := testConfig(t)
	for name, end := range map[string]func(s *topScreen){
		"Ctrl-C":  func(s *topScreen) { s.master.WriteString("\x03") },
		"SIGTERM": func(s *topScreen) { s.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":  func(s *topScreen) { s.cmd.Process.Signal(syscall.SIGINT) },
	} {
		t.Run(name, func(t *testing.T) {
			s := startTop(t, nil, "-f", config)
			s.awaitPicture("nothing listens")
			end(s)
			s.leave()
		})
	}
}

// NO_COLOR takes the colours, and a terminal without control sequences gets plain text.
func TestTopOnPlainTerminals(t *testing.T) {
	config, admin := testConfig(t)
	startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	s := startTop(t, []string{"NO_COLOR=1"}, "-f", config)
	s.awaitPicture("All well")
	if got := s.picture(); strings.Contains(got, "\x1b") {
		t.Errorf("NO_COLOR: got the picture %q, want no colours", got)
	}
	s.master.WriteString("q")
	s.leave()
	dumb := startTop(t, []string{"TERM=dumb"}, "-f", config)
	eventually(t, "two texts on a dumb terminal", func() bool { return strings.Count(dumb.text(), "All well") > 1 })
	if got := dumb.text(); strings.Contains(got, "\x1b") {
		t.Errorf("TERM=dumb: got %q, want no control sequences", got)
	}
	dumb.cmd.Process.Signal(syscall.SIGTERM)
	dumb.cmd.Wait()
}

// Without a terminal top writes text, or the documents of /status, one a line.
func TestTopWithoutATerminal(t *testing.T) {
	config, admin := testConfig(t)
	if _, stderr, code := docket(t, "top", "-f", config, "--once"); code != command.ExitFailed || !strings.Contains(stderr, "docket does not run") {
		t.Errorf("without docket: got exit code %d and %q", code, stderr)
	}
	startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, code := docket(t, "top", "-f", config, "--once"); code != command.ExitOK || !strings.Contains(stdout, "All well\n") || strings.Contains(stdout, "\x1b") {
		t.Errorf("got exit code %d, %q and %q", code, stdout, stderr)
	}
	cmd := exec.Command("docket", "top", "-f", config, "-o", "json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	var times []time.Time
	for len(times) < 2 && lines.Scan() {
		var s exporter.Status
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil || s.Queue.State != exporter.Active {
			t.Fatalf("got the line %s, %v, want a status", lines.Bytes(), err)
		}
		times = append(times, s.Time)
	}
	if len(times) < 2 || !times[1].After(times[0]) {
		t.Errorf("got the times %v, want two, one after the other", times)
	}
}
