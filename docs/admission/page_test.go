//go:build unix

// Package admission tests what the page docs/admission.md says: its commands run, its
// programs compile, and its manifests agree with each other and with docket.
package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/testcli"
	"github.com/docket-export/docket/internal/testinput"
)

const page = "../admission.md"

// awaitTimeout bounds what takes a second at most, on a machine that is busy with more.
const awaitTimeout = 5 * time.Minute

// block is one block of code on the page, under the last heading before it.
type block struct{ heading, language, text string }

var (
	fence   = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
	heading = regexp.MustCompile(`(?m)^##+ (.+)$`)
)

// blocks returns those of a language below a heading. want is how many there are.
func blocks(t *testing.T, under, language string, want int) (texts []string) {
	t.Helper()
	for _, b := range allBlocks(t) {
		if b.heading == under && b.language == language {
			texts = append(texts, b.text)
		}
	}
	if len(texts) != want {
		t.Fatalf("%s: got %d blocks of %s, want %d", under, len(texts), language, want)
	}
	return texts
}

func allBlocks(t *testing.T) (all []block) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	// Comments of shell are no headings.
	headings := heading.FindAllSubmatchIndex(fence.ReplaceAllFunc(text, func(code []byte) []byte {
		return bytes.Repeat([]byte("x"), len(code))
	}), -1)
	for _, m := range fence.FindAllSubmatchIndex(text, -1) {
		b := block{language: string(text[m[2]:m[3]]), text: string(text[m[4]:m[5]])}
		for _, h := range headings {
			if h[0] < m[0] {
				b.heading = string(text[h[2]:h[3]])
			}
		}
		all = append(all, b)
	}
	return all
}

// desk is an empty directory in which a person follows the page.
type desk struct {
	dir  string
	host *strings.Replacer // that of the page by one whose ports are free
	// running are the programs that were left running, by their first two words.
	running map[string]*program
}

type program struct {
	cmd *exec.Cmd
	log bytes.Buffer
}

// bin is the directory with the program docket.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "docket-page-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(bin)
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "docket"), "../../cmd/docket")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	testinput.Packages(t, "../../cli/...", "../../cmd/...")
	host, _, _ := net.SplitHostPort(free(t))
	d := &desk{dir: t.TempDir(), host: strings.NewReplacer("127.0.0.1", host), running: map[string]*program{}}
	return d
}

// free returns an address that nobody uses.
func free(t *testing.T) string {
	t.Helper()
	address, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func (d *desk) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(d.host.Replace(text)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shell is a command as it stands on the page.
func (d *desk) shell(line string) *exec.Cmd {
	cmd := exec.Command("bash", "-euc", d.host.Replace(line))
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GOWORK=off")
	return cmd
}

// serves are the commands that a person leaves running in a terminal.
var serves = regexp.MustCompile(`^(go run|docket run|docket tap) `)

// follow runs the lines of a block and returns what those that end have printed.
func (d *desk) follow(t *testing.T, text string) string {
	t.Helper()
	var printed strings.Builder
	for line := range strings.Lines(text) {
		if name := serves.FindString(line); name != "" {
			d.start(t, strings.TrimSpace(name), line)
			continue
		}
		out, err := d.shell(line).CombinedOutput()
		if err != nil {
			t.Fatalf("%s%v\n%s%s", line, err, out, d.logs())
		}
		printed.Write(out)
	}
	return printed.String()
}

func (d *desk) start(t *testing.T, name, line string) {
	t.Helper()
	p := &program{cmd: d.shell(line)}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run has a child
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.running[name] = p
	t.Cleanup(func() { d.kill(t, name) })
}

// kill ends a program, if it runs.
func (d *desk) kill(t *testing.T, name string) {
	t.Helper()
	p := d.running[name]
	if p == nil {
		return
	}
	delete(d.running, name)
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
	_ = p.cmd.Wait() // it was killed
	if t.Failed() {
		t.Logf("%s:\n%s", name, p.log.Bytes())
	}
}

func (d *desk) logs() (text string) {
	for name := range d.running {
		text += " " + name
	}
	return "still running:" + text
}

// await asks until ok returns nil.
func await(t *testing.T, what string, ok func() error) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(awaitTimeout); ; <-ticker.C {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("wait for %s: %v", what, err)
		}
	}
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		_, err := exec.LookPath(name)
		switch {
		case err == nil:
		case os.Getenv("CI") == "true":
			t.Fatalf("the page needs it: %v", err)
		default:
			t.Skipf("the page needs it: %v", err)
		}
	}
}

// The section is followed from an empty directory, word for word but for the address 127.0.0.1.
func TestTryTheTap(t *testing.T) {
	needs(t, "bash", "openssl", "curl")
	const section = "Try the tap"
	sh, files := blocks(t, section, "sh", 6), blocks(t, section, "json", 2)
	d := newDesk(t)
	d.write(t, "engine.go", blocks(t, section, "go", 1)[0])
	d.write(t, "review.json", files[0])
	// Other tests have the port of docket's own endpoint.
	d.write(t, "docket.yaml", blocks(t, section, "yaml", 1)[0]+"admin: {address: \"\"}\n")

	for _, terminal := range sh[:3] {
		d.follow(t, terminal)
	}
	ready, ask, _ := strings.Cut(sh[3], "\n")
	await(t, "the tap to be ready", func() error {
		out, err := d.shell(ready).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	const denied = `"allowed":false`
	if got := d.follow(t, sh[3]); !strings.Contains(got, denied) {
		t.Errorf("got the answer %q, want %s", got, denied)
	}
	if got, want := d.record(t, sh[4], 1), fields(t, files[1]); !equal(got, want) {
		t.Errorf("got the record\n%v\nwant the one of the page\n%v", got, want)
	}

	// "Stop docket with Ctrl-C and send the review again", and then the engine.
	d.kill(t, "docket run")
	if got := d.follow(t, ask); !strings.Contains(got, denied) {
		t.Errorf("without docket: got the answer %q, want %s", got, denied)
	}
	d.follow(t, sh[1])
	if got := d.record(t, sh[4], 2); got["decision"] != "deny" {
		t.Errorf("docket is back: got the record %v, want that of the denial", got)
	}
	d.kill(t, "go run")
	if got := d.follow(t, ask); !strings.HasPrefix(got, "docket tap: the engine cannot be reached") {
		t.Errorf("without the engine: got the answer %q, want that of the tap", got)
	}
	if got := d.record(t, sh[4], 3); got["decision"] != "error" || got["code"] != 502.0 {
		t.Errorf("without the engine: got the record %v, want error and 502", got)
	}
	counts := d.follow(t, sh[5])
	for _, want := range []string{`docket_tap_reviews_total{decision="deny"} 2`, `docket_tap_reviews_total{decision="error"} 1`} {
		if !strings.Contains(counts, want+"\n") {
			t.Errorf("got the metrics\n%s\nwant %s", counts, want)
		}
	}
}

// record waits until the command prints n records and returns the last.
func (d *desk) record(t *testing.T, command string, n int) (last map[string]any) {
	t.Helper()
	await(t, fmt.Sprintf("record %d", n), func() error {
		out, err := d.shell(command).Output()
		if err != nil {
			return err
		}
		lines := bytes.SplitAfter(out, []byte("\n"))
		if len(lines) != n+1 { // the last is empty
			return fmt.Errorf("got %q, want %d lines", out, n)
		}
		last = fields(t, string(lines[n-1]))
		return nil
	})
	return last
}

func fields(t *testing.T, text string) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

// equal compares two records of the same review at different times and places.
func equal(a, b map[string]any) bool {
	for _, key := range []string{"timestamp", "durationSeconds", "pod"} {
		if a[key] == nil || b[key] == nil {
			return false
		}
		a[key] = b[key]
	}
	x, _ := json.Marshal(a) // which was read from JSON
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// get returns a page that answers 200.
func get(url string) (string, error) {
	client := http.Client{Timeout: 5 * time.Second}
	res, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	return string(text), err
}
