package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/helmtest"
	"github.com/docket-export/docket/test/nodetest"
)

// chart is a release of charts/docket in a namespace.
type chart struct {
	*nodetest.Namespace
	t    *testing.T
	dir  string
	home string // of Helm
	siem *nodetest.Receiver
	ca   testcert.CA
}

func newChart(t *testing.T) *chart {
	t.Helper()
	n := nodetest.Start(t)
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	return &chart{
		Namespace: n.Namespace(t), t: t, dir: filepath.Join(root, "charts", "docket"), home: t.TempDir(),
		siem: n.Receiver(t), ca: testcert.NewCA(t),
	}
}

// helm runs Helm in the namespace, with values where there are some.
func (c *chart) helm(values string, args ...string) string {
	c.t.Helper()
	args = append(args, "--namespace", c.Name)
	if values != "" {
		file := filepath.Join(c.home, "values.yaml")
		if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
			c.t.Fatal(err)
		}
		args = append(args, "--values", file)
	}
	enter := c.Node.Command(helmtest.Program(c.t), args...)
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, enter.Path, enter.Args[1:]...)
	cmd.Env = slices.Concat(enter.Env, []string{"HELM_CACHE_HOME=" + c.home, "HELM_CONFIG_HOME=" + c.home, "HELM_DATA_HOME=" + c.home})
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("helm %s: %v: %s", strings.Join(args, " "), err, said.String())
	}
	return out.String()
}

// values are those of every release, with a queue that fits on the volumes of the node.
func (c *chart) values(sources string) string {
	return `
fullnameOverride: docket
image: {repository: docket.test/docket, tag: dev, pullPolicy: Never}
volume: {size: 512Mi}
config:
  queue: {maxBytes: 16Mi}
  sources: ` + sources + `
  sinks: [{name: siem, retry: {maxBackoff: 1s}, batch: {maxWait: 100ms}, deadLetters: {maxBytes: 32Mi}, http: {url: "` + c.siem.URL + `"}}]
  shutdown: {drainTimeout: 2s}
`
}

// client reaches the Service docket at a port, by the name in its certificate.
func (c *chart) client(port string) *http.Client {
	c.t.Helper()
	service := net.JoinHostPort(c.Kubectl("get", "service", "docket", "-o", "jsonpath={.spec.clusterIP}"), port)
	// A connection for each request: a Service chooses a pod for each.
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: c.ca.Pool, ServerName: c.serverName()}}
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return c.Node.Dial(ctx, network, service)
	}
	// A pod is Ready a moment before the node knows of it.
	c.Await("the Service to answer", func() error {
		conn, err := c.Node.Dial(c.t.Context(), "tcp", service)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func (c *chart) serverName() string { return "docket." + c.Name + ".svc" }

// taken waits until the receiver has a line with each text.
func (c *chart) taken(texts ...string) {
	c.t.Helper()
	c.Await("records to be delivered", func() error {
		all := strings.Join(c.siem.Lines(), "\n")
		for _, text := range texts {
			if !strings.Contains(all, `"`+text+`"`) {
				return fmt.Errorf("no %s", text)
			}
		}
		return nil
	})
}

// A docket by itself takes decisions through its Service. What it has not delivered when its
// pod is deleted by force, the next pod finds on the claim; an upgrade loses nothing, and the
// claim outlives the release.
func TestChartStatefulSet(t *testing.T) {
	t.Parallel()
	c := newChart(t)
	secret(t, c.Namespace, "docket-tls", c.ca, c.serverName())
	c.Volume("docket-queue-docket-0")
	values := c.values(`[{name: opa, opa: {address: ":8282", tls: {certFile: /etc/docket-tls/tls.crt, keyFile: /etc/docket-tls/tls.key}}}]`) + `
tls: {secretName: docket-tls}
`
	notes := c.helm(values, "install", "docket", c.dir, "--wait", "--timeout", "10m")
	if want := "exec docket-0 -- docket status -f /etc/docket/docket.yaml"; !strings.Contains(notes, want) {
		t.Errorf("the notes do not say %q:\n%s", want, notes)
	}
	c.Kubectl("exec", "docket-0", "--", "docket", "status", "--check", "-f", "/etc/docket/docket.yaml")
	opa := c.client("8282")
	decide := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			resp, err := opa.Post("https://"+c.serverName()+":8282/logs", "application/json", strings.NewReader(`[{"decision_id":"`+id+`"}]`))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s", id, resp.Status)
			}
		}
	}
	decide("first")
	c.taken("first")

	c.siem.Answer(http.StatusServiceUnavailable)
	decide("held-1", "held-2")
	c.Kubectl("delete", "pod", "docket-0", "--force", "--grace-period=0")
	c.AwaitReady("pod/docket-0")
	c.siem.Answer(0)
	c.taken("held-1", "held-2")

	c.helm(values+"terminationGracePeriodSeconds: 40\n", "upgrade", "docket", c.dir, "--wait", "--timeout", "10m")
	opa = c.client("8282")
	decide("upgraded")
	c.taken("upgraded")

	c.helm("", "uninstall", "docket", "--wait", "--timeout", "10m")
	c.Kubectl("get", "persistentvolumeclaim", "docket-queue-docket-0")
}

// Two taps in front of an engine that denies everything are replaced by an upgrade while
// reviews come: each is answered by the engine, and has one record.
func TestChartTap(t *testing.T) {
	t.Parallel()
	c := newChart(t)
	secret(t, c.Namespace, "webhook-tls", c.ca, c.serverName())
	pair := secret(t, c.Namespace, "engine-tls", c.ca, c.Node.Address)
	l, err := c.Node.Listen(c.Node.Address + ":0")
	if err != nil {
		t.Fatal(err)
	}
	engine := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, uid, found := strings.Cut(string(body), `"uid":"`)
		uid, _, ended := strings.Cut(uid, `"`)
		if err != nil || !found || !ended {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":false,"status":{"code":403,"message":"no"}}}`, uid)
	}))
	_ = engine.Listener.Close()
	engine.Listener, engine.TLS = l, &tls.Config{Certificates: []tls.Certificate{pair.TLS}}
	engine.StartTLS()
	t.Cleanup(engine.Close)

	values := c.values(`[{name: tap, unix: {path: /run/docket/docket.sock}}]`) + `
mode: tap
replicas: 2
tls: {secretName: webhook-tls}
tap: {upstream: {url: "` + engine.URL + `", caFile: /etc/engine/ca.crt}, docket: {mode: Blocking}}
volumes: [{name: engine-ca, secret: {secretName: engine-tls, items: [{key: ca.crt, path: ca.crt}]}}]
tapContainer: {volumeMounts: [{name: engine-ca, mountPath: /etc/engine, readOnly: true}]}
`
	c.helm(values, "install", "docket", c.dir, "--wait", "--timeout", "10m")
	webhook := c.client("443")
	quit, done := make(chan struct{}), make(chan error, 1)
	var reviewed []string
	go func() {
		done <- func() error {
			for n := 0; ; n++ {
				uid := fmt.Sprintf("review-%d", n)
				if err := review(webhook, c.serverName(), uid); err != nil {
					return err
				}
				reviewed = append(reviewed, uid)
				select {
				case <-quit:
					return nil
				case <-time.After(10 * time.Millisecond): // a rate, no synchronisation
				}
			}
		}()
	}()
	c.helm(strings.Replace(values, "tap: {", "tap: {cluster: prod, ", 1), "upgrade", "docket", c.dir, "--wait", "--timeout", "10m")
	close(quit)
	if err := <-done; err != nil {
		t.Errorf("after %d reviews: %v", len(reviewed), err)
	}
	t.Logf("%d reviews", len(reviewed))
	c.Await("a record of each review", func() error {
		if missing := c.siem.Missing(reviewed); len(missing) > 0 {
			return fmt.Errorf("%d of %d, such as %s", len(missing), len(reviewed), missing[0])
		}
		return nil
	})
	for uid, n := range c.siem.RequestUIDs() {
		if n != 1 {
			t.Errorf("%s has %d records", uid, n)
		}
	}
}

// review asks a webhook, which must deny.
func review(client *http.Client, host, uid string) error {
	resp, err := client.Post("https://"+host+"/v1/admit?timeout=5s", "application/json", strings.NewReader(
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"`+uid+`","operation":"CREATE","kind":{"version":"v1","kind":"Pod"},"object":{}}}`))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"allowed":false`)) {
		return errors.New(uid + ": " + resp.Status + ": " + string(body))
	}
	return nil
}

// secret makes the Secret name with a certificate of ca for hosts, as cert-manager does.
func secret(t *testing.T, ns *nodetest.Namespace, name string, ca testcert.CA, hosts ...string) testcert.Pair {
	t.Helper()
	pair := ca.Issue(t, hosts[0], hosts[1:]...)
	ns.Kubectl("create", "secret", "generic", name, "--type=kubernetes.io/tls",
		"--from-file=tls.crt="+pair.CertFile, "--from-file=tls.key="+pair.KeyFile, "--from-file=ca.crt="+ca.File)
	return pair
}
