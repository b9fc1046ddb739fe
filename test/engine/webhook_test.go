package engine

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/server"
)

// engine is docket-webhook, and the docket that has its records.
type engine struct {
	*webhook
	docket  *dockettest.Docket
	process *server.Server
}

// startEngine starts both, with more flags than those that every test needs, and returns when
// docket-webhook says that it is ready: from then on it must give every verdict.
func startEngine(t testing.TB, args ...string) *engine {
	t.Helper()
	e := &engine{docket: dockettest.New(t)}
	e.docket.Start(e.docket.Config(dockettest.UnixSource("engine", e.docket.Socket)))
	e.webhook, e.process = startProcess(t, []string{"POD_NAME=docket-webhook-0", "POD_NAMESPACE=" + namespace},
		append([]string{"--docket-address", "unix://" + e.docket.Socket}, args...)...)
	return e
}

// startProcess starts docket-webhook alone, with the environment of its pod, and returns when it is ready.
func startProcess(t testing.TB, pod []string, args ...string) (*webhook, *server.Server) {
	t.Helper()
	const name = "docket-webhook.docket-webhook.svc"
	addresses, err := freeport.Loopback(3)
	if err != nil {
		t.Fatal(err)
	}
	var ports []string
	for _, address := range addresses {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	ca := testcert.NewCA(t)
	pair := ca.Issue(t, name)
	process := &server.Server{
		Name: "docket-webhook", Program: program,
		Args: append([]string{
			"--port", ports[0], "--health-addr", addresses[1], "--prometheus-port", ports[2], "--cert-dir", filepath.Dir(pair.CertFile),
			"--cluster-name", "test", "--shutdown-delay", "0s",
		}, args...),
		Env: pod,
		Ready: func() error {
			client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Get("http://" + addresses[1] + "/readyz")
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("/readyz: %s", resp.Status)
			}
			return nil
		},
	}
	process.Start(t)
	return newWebhook(t, addresses[0], name, ca.Pool), process
}

// records returns those that are exported, by the UID of the request.
func (e *engine) records(t *testing.T) map[string][]decision.Record {
	t.Helper()
	all := make(map[string][]decision.Record)
	for _, line := range dockettest.Exported(t, e.docket.ExportDirectory()) {
		var r decision.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all[r.RequestUID] = append(all[r.RequestUID], r)
	}
	return all
}

// policyDirectory is a directory for --policy-dir with all of testdata that docket-webhook reads.
func policyDirectory(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "policies"), os.DirFS(filepath.Join("testdata", "policies"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"settings.yaml", "objects.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(read(t, name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
