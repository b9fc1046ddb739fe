//go:build soak && unix

package admission

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/internal/testcli"
	"github.com/docket-export/docket/internal/testinput"
)

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

// succeeds asks until ok returns nil.
func succeeds(t *testing.T, what string, ok func() error) {
	t.Helper()
	var err error
	t.Cleanup(func() {
		if err != nil {
			t.Logf("%s: %v", what, err)
		}
	})
	await.Until(t, what, func() bool { err = ok(); return err == nil })
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
	succeeds(t, "the tap to be ready", func() error {
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
	succeeds(t, fmt.Sprintf("record %d", n), func() error {
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
	res, err := http.Get(url)
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

// taps are the arguments of every tap of the page, by the name that its engine's certificate has.
func taps(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	names := map[string]string{"Gatekeeper": "gatekeeper-webhook-service.gatekeeper-system.svc", "Kyverno": "kyverno-svc.kyverno.svc"}
	for engine, pod := range pods(t) {
		all[names[engine]] = find(t, pod.Containers, "container tap", func(c container) bool { return c.Name == "tap" }).Args
	}
	policy := blocks(t, "Kubewarden", "yaml", 1)[0]
	list := regexp.MustCompile(`(?s)args: (\["tap".*?\])`).FindStringSubmatch(policy)
	var args []string
	if list == nil || json.Unmarshal([]byte(list[1]), &args) != nil {
		t.Fatalf("there are no arguments of the tap in\n%s", policy)
	}
	all["policy-server-default.kubewarden.svc"] = args
	return all
}

// The arguments of each container make a tap that is ready in front of an engine with the
// certificate of that chart, and passes its verdict on.
func TestContainersRun(t *testing.T) {
	for name, args := range taps(t) {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.host = strings.NewReplacer() // addresses are given below
			ca := testcert.NewCA(t)
			pair := ca.Issue(t, name)
			const verdict = `{"response":{"uid":"1","allowed":true}}`
			engine := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, verdict)
			}))
			engine.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS}}
			engine.StartTLS()
			defer engine.Close()
			for file, text := range map[string]string{"tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM, "ca.crt": ca.PEM} {
				d.write(t, file, text)
			}
			listen, metrics := free(t), free(t)
			line := "docket"
			for _, arg := range args {
				switch key, _, _ := strings.Cut(arg, "="); key {
				case "--listen":
					arg = "--listen=" + listen
				case "--metrics":
					arg = "--metrics=" + metrics
				case "--upstream":
					arg = "--upstream=" + engine.URL
				}
				line += " '" + strings.NewReplacer("/certs", d.dir, "/run/docket", d.dir).Replace(arg) + "'"
			}
			d.start(t, "docket tap", line)
			succeeds(t, "the tap to be ready", func() error {
				_, err := get("http://" + metrics + "/readyz")
				return err
			})
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool, ServerName: name}}}
			defer client.CloseIdleConnections()
			res, err := client.Post("https://"+listen+"/v1/admit?timeout=10s", "application/json", strings.NewReader(`{"request":{"uid":"1"}}`))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if got, err := io.ReadAll(res.Body); err != nil || string(got) != verdict {
				t.Errorf("got the answer %q, %v, want that of the engine", got, err)
			}
		})
	}
}
