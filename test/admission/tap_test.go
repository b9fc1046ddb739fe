package admission

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/server"
)

// secret is a directory with a certificate, as a kubelet mounts a Secret.
type secret struct {
	directory string
	versions  int
}

// replace puts another certificate in, as a kubelet does: both files at once.
func (s *secret) replace(t *testing.T, pair testcert.Pair) {
	t.Helper()
	s.versions++
	version := fmt.Sprintf("..%d", s.versions)
	must(t, os.Mkdir(filepath.Join(s.directory, version), 0o755))
	for name, text := range map[string]string{"tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM} {
		must(t, os.WriteFile(filepath.Join(s.directory, version, name), []byte(text), 0o600))
		if s.versions == 1 {
			must(t, os.Symlink(filepath.Join("..data", name), filepath.Join(s.directory, name)))
		}
	}
	link := filepath.Join(s.directory, "..data")
	must(t, os.Symlink(version, link+"_tmp"))
	must(t, os.Rename(link+"_tmp", link))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tapProcess is a docket tap as a server of its own.
type tapProcess struct {
	server.Server
	address string // of the proxy
	secret  *secret
}

// tapOptions are what a tap is started with beside its addresses.
type tapOptions struct {
	upstream, upstreamCA string
	certificate          testcert.Pair
	docket               string // address
	// docketKeys are more keys of the section docket. With them the tap has a configuration
	// file, and flags without.
	docketKeys        string
	decisions, preset string // flags
}

// startTap starts a tap and returns when it is ready. It ends with the test.
func startTap(t *testing.T, name string, o tapOptions) *tapProcess {
	t.Helper()
	addresses, err := freeport.Loopback(2)
	must(t, err)
	probe := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	p := &tapProcess{address: addresses[0], secret: &secret{directory: t.TempDir()}}
	p.secret.replace(t, o.certificate)
	p.Server = server.Server{
		Name:    name,
		Program: dockettest.Program(t),
		Args: []string{
			"tap", "--listen", p.address, "--tls-dir", p.secret.directory,
			"--upstream", o.upstream, "--upstream-ca", o.upstreamCA, "--decisions", o.decisions, "--preset", o.preset,
			"--docket", o.docket, "--metrics", addresses[1], "--shutdown-delay", shutdownDelay.String(),
		},
		Ready: func() error { return getOK(probe, "http://"+addresses[1]+"/readyz") },
	}
	if o.docketKeys != "" {
		file := filepath.Join(t.TempDir(), "tap.yaml")
		must(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: docket.dev/v1alpha1
kind: Tap
listen: %q
tlsDir: %q
upstream: {url: %q, caFile: %q}
docket: {address: %q, %s}
shutdownDelay: %v
metrics: {address: %q}
`, p.address, p.secret.directory, o.upstream, o.upstreamCA, o.docket, o.docketKeys, shutdownDelay, addresses[1]), 0o600))
		p.Args = []string{"tap", "-f", file}
	}
	p.Start(t)
	return p
}

// shutdownDelay is the time in which a Service has learnt that a tap is about to end: so
// many times the period of its probes as the default is of a kubelet's.
const shutdownDelay = time.Second

// presented is the digest of the certificate that a new connection to the tap is
// given.
func (p *tapProcess) presented(t *testing.T) string {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: awaitTimeout}, "tcp", p.address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // only looked at
	must(t, err)
	defer conn.Close()
	return digest(conn.ConnectionState().PeerCertificates[0].Raw)
}

// digest tells certificates apart.
func digest(certificate []byte) string { return fmt.Sprintf("%x", sha256.Sum256(certificate)) }

// getOK returns nil when a page answers 200.
func getOK(client *http.Client, url string) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, resp.Status)
	}
	return nil
}
