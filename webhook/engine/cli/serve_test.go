package cli

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/webhook/engine/policy"
)

// program is a running docket-webhook.
type program struct {
	*testing.T
	cmd   *exec.Cmd
	lines chan string // of its log
	addr  map[string]string
}

// startProgram runs docket-webhook until it listens everywhere.
func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"--port", "0", "--health-addr", "127.0.0.1:0", "--prometheus-port", "0"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{T: t, cmd: cmd, lines: make(chan string, 10_000), addr: make(map[string]string)}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(log); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() { p.kill() })
	for _, flag := range []string{"--health-addr", "--prometheus-port", "serving"} {
		var entry struct{ Address string }
		if err := json.Unmarshal([]byte(p.await(flag)), &entry); err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(entry.Address)
		if err != nil {
			t.Fatal(err)
		}
		p.addr[flag] = "localhost:" + port
	}
	return p
}

// await returns the next line of the log that has a text in it.
func (p *program) await(text string) string {
	p.Helper()
	for deadline := time.After(await.Left(p)); ; {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.Fatalf("docket-webhook ended before it logged %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
			p.Log(line)
		case <-deadline:
			p.Fatalf("docket-webhook did not log %q within two minutes", text)
		}
	}
}

// kill ends it at once, if it runs.
func (p *program) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

func (p *program) get(flag, path string) (int, string) {
	p.Helper()
	response, err := http.Get("http://" + p.addr[flag] + path)
	if err != nil {
		p.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// state returns that of a template or constraint.
func (p *program) state(name string) state {
	p.Helper()
	_, text := p.get("--health-addr", "/states")
	var all states
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		p.Fatal(err)
	}
	for _, s := range all.Policies {
		if s.Name == name {
			return s
		}
	}
	p.Fatalf("got the states %s, want %s among them", text, name)
	return state{}
}

// review returns the answer to a Pod without labels.
func (p *program) review() string {
	p.Helper()
	ca, err := os.ReadFile("certs/tls.crt")
	if err != nil {
		p.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	response, err := c.Post("https://"+p.addr["serving"]+"/v1/admit", "application/json",
		strings.NewReader(review("CREATE", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`, "null")))
	if err != nil {
		p.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

const denial = `"allowed":false,"status":{"metadata":{},"message":"[team] web has no team","reason":"Forbidden","code":403}`

// A template that breaks while requests come, a SIGKILL, and a start with the broken one: what was valid
// is enforced all the time, each denial is recorded, and the mended template takes over.
func TestServeDirectory(t *testing.T) {
	desk(t, map[string]string{"p/template.yaml": template, "p/constraint.yaml": constraint})
	docket := clienttest.New()
	t.Cleanup(docket.Close)
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- docket.Serve(listener) }()
	t.Cleanup(func() { _ = listener.Close(); <-served })
	args := []string{"--policy-dir", "p", "--cert-dir", "certs", "--self-signed", "--docket-address", "unix://" + socket, "--shutdown-delay", "0s"}

	p := startProgram(t, args...)
	p.await("K8sRequiredLabels/team")
	if code, text := p.get("--health-addr", "/livez"); code != http.StatusOK {
		t.Errorf("/livez: got %d %s", code, text)
	}
	awaitOK(p)
	if got := p.review(); !strings.Contains(got, denial) || !strings.Contains(got, `"docket-producer":`) {
		t.Errorf("got %s, want a denial with the number of its record", got)
	}
	write(t, "p/template.yaml", strings.Replace(template, "sprintf", "sprint", 1))
	p.await("policy is not enforced")
	degraded := func() {
		t.Helper()
		if s := p.state("k8srequiredlabels"); s.Phase != policy.Degraded || s.Reason != policy.CompileFailed || s.Observed != 2 || s.Enforced != 1 {
			t.Errorf("got %+v, want the first revision enforced, the second seen", s)
		}
		if got := p.review(); !strings.Contains(got, denial) {
			t.Errorf("broken: got %s, want a denial", got)
		}
	}
	degraded()
	if err := docket.Wait(t.Context(), 2); err != nil { // a SIGKILL takes what docket does not have yet
		t.Fatal(err)
	}

	p.kill()
	p = startProgram(t, args...)
	awaitOK(p)
	degraded()
	write(t, "p/template.yaml", strings.Replace(template, "has no team", "is nobody's", 1))
	p.await(`"generation":3`)
	if got := p.review(); !strings.Contains(got, "web is nobody's") || p.state("k8srequiredlabels").Enforced != 3 {
		t.Errorf("mended: got %s and %+v, want the third revision", got, p.state("k8srequiredlabels"))
	}
	_, metrics := p.get("--prometheus-port", "/metrics")
	for _, want := range []string{`docket_webhook_policies{phase="Active"} 2`, `docket_webhook_review_duration_seconds_count{decision="deny"} 2`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics have no line %s", want)
		}
	}

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for range p.lines { // until the pipe ends
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	lines := docket.Lines()
	if len(lines) != 4 {
		t.Fatalf("got %d records, want 4, one for each denial", len(lines))
	}
	for _, line := range lines {
		if !strings.Contains(line.Text, `"name":"team"`) || !strings.Contains(line.Text, `"requestUsername":"alice"`) {
			t.Errorf("got the record %s", line.Text)
		}
	}
}

// awaitOK waits until the program is ready. It asks again and again, as kubelet does.
func awaitOK(p *program) {
	p.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		code, text := p.get("--health-addr", "/readyz")
		if code == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			p.Fatalf("/readyz: %d %s", code, text)
		}
	}
}

// With no interval there is no audit, as in Gatekeeper.
func TestNoAudit(t *testing.T) {
	for interval, want := range map[int][]string{60: {"webhook", "audit", "status"}, 0: {"webhook", "status"}} {
		o := options{auditInterval: interval}
		if err := o.check(); err != nil || !slices.Equal(o.operations, want) {
			t.Errorf("%d: got the operations %q and %v, want %q", interval, o.operations, err, want)
		}
	}
}

// A key that is there without its certificate is somebody's.
func TestSelfSignKeepsAKey(t *testing.T) {
	desk(t, map[string]string{"certs/tls.key": "somebody's"})
	if err := selfSign("certs"); err == nil {
		t.Error("got nil, want an error")
	}
	if text, err := os.ReadFile("certs/tls.key"); err != nil || string(text) != "somebody's" {
		t.Errorf("got %q and %v, want the key as it was", text, err)
	}
}

func TestUser(t *testing.T) {
	// {"sub":"system:serviceaccount:docket-webhook:docket-webhook"}
	const claims = "eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6ZG9ja2V0LXdlYmhvb2s6ZG9ja2V0LXdlYmhvb2sifQ"
	desk(t, map[string]string{"token": "e30." + claims + ".c2ln", "opaque": "administrator", "broken": "e30.!.c2ln"})
	for file, want := range map[string]string{
		"token": "system:serviceaccount:docket-webhook:docket-webhook", "opaque": "", "broken": "", "nowhere": "",
	} {
		e := &engine{rest: &rest.Config{BearerTokenFile: file}}
		if got := e.user(); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
}
