// Package kubetest runs a real control plane of Kubernetes for a test - etcd and the
// API server of a pinned release, on loopback - and a real Gatekeeper on it.
//
// There are no nodes and no controllers: objects are stored, and admitted or denied,
// and nothing else happens to them. All programs are built from their modules, once,
// into a folder of the repository that git ignores. Where that cannot be done a test
// is skipped, or fails when the environment says CI=true.
package kubetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/server"
)

// Options are what a test may ask of the control plane.
type Options struct {
	// AuditPolicy is the text of a policy file. With it the API server writes its
	// audit log to Cluster.AuditLog.
	AuditPolicy string
	// AuditWebhook is a kubeconfig file that says where the API server sends its audit
	// events as well.
	AuditWebhook string
}

// Cluster is a running control plane. Its methods report what goes wrong through the
// test it was started for, and belong on that test's goroutine.
type Cluster struct {
	Kubeconfig string // file; its user may do everything
	Server     string // URL of the API server
	AuditLog   string // file
	APIServer  *server.Server

	t        testing.TB
	ca       testcert.CA // of the API server
	dir      string
	programs string // directory
	services string // range of Service addresses less its last byte: "127.77.3."
}

// token authenticates the administrator.
const token = "administrator"

// Start starts a control plane and waits until it serves. It and its data end with
// the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := &Cluster{
		t:        t,
		dir:      t.TempDir(),
		programs: ControlPlane(t),
		// The API server reaches a Service where a process listens on its address. Each
		// cluster has a range of its own: test programs run side by side.
		services: fmt.Sprintf("127.%d.%d.", 16+rand.IntN(224), rand.IntN(256)),
	}
	c.Kubeconfig, c.AuditLog = c.file("kubeconfig"), c.file("audit.log")
	addresses, err := freeport.Loopback(3)
	if err != nil {
		t.Fatal(err)
	}
	etcd, peer, api := "http://"+addresses[0], "http://"+addresses[1], addresses[2]
	c.startEtcd(etcd, peer)
	c.startAPIServer(etcd, api, o)
	return c
}

func (c *Cluster) startEtcd(client, peer string) {
	c.t.Helper()
	etcd := &server.Server{
		Name:    "etcd",
		Program: filepath.Join(c.programs, "etcd"),
		// No test cuts the power of etcd, and its syncs would slow all others down.
		Args: []string{
			"--data-dir", c.file("etcd"), "--unsafe-no-fsync", "--log-level", "warn",
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
		},
		Log:   c.file("etcd.log"),
		Ready: func() error { return getOK(client + "/health") },
	}
	etcd.Start(c.t)
}

func (c *Cluster) startAPIServer(etcd, address string, o Options) {
	c.t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		c.t.Fatal(err)
	}
	ca := testcert.NewCA(c.t)
	c.ca, c.Server = ca, "https://"+address
	pair := ca.Issue(c.t, host)
	serviceAccounts := ca.Issue(c.t, "service-accounts")
	c.write("tokens.csv", token+",admin,admin,system:masters\n")
	c.write("kubeconfig", kubeconfig(c.Server, ca.File, token))
	args := []string{
		"--etcd-servers", etcd, "--bind-address", host, "--secure-port", port,
		// It may not be loopback, and nothing is ever sent there.
		"--advertise-address", "192.0.2.1",
		"--service-cluster-ip-range", c.services + "0/24",
		"--tls-cert-file", pair.CertFile, "--tls-private-key-file", pair.KeyFile,
		"--client-ca-file", ca.File, "--token-auth-file", c.file("tokens.csv"), "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", serviceAccounts.CertFile, "--service-account-signing-key-file", serviceAccounts.KeyFile,
		// Nobody makes the accounts without which it admits no Pod.
		"--disable-admission-plugins", "ServiceAccount",
	}
	c.APIServer = &server.Server{
		Name:    "the API server",
		Program: filepath.Join(c.programs, "kube-apiserver"),
		Args:    append(args, c.auditArgs(o)...),
		Log:     c.file("kube-apiserver.log"),
		Ready: func() error {
			_, err := c.Try("", "get", "--raw", "/readyz")
			return err
		},
	}
	c.APIServer.Start(c.t)
}

func (c *Cluster) auditArgs(o Options) []string {
	c.t.Helper()
	if o.AuditPolicy == "" {
		return nil
	}
	c.write("audit-policy.yaml", o.AuditPolicy)
	args := []string{"--audit-policy-file", c.file("audit-policy.yaml"), "--audit-log-path", c.AuditLog}
	if o.AuditWebhook != "" {
		// A batch that fails is tried four times more, at first after 10 s by default.
		args = append(args, "--audit-webhook-config-file", o.AuditWebhook,
			"--audit-webhook-batch-max-wait", "500ms", "--audit-webhook-initial-backoff", "5s")
	}
	return args
}

// file is the path of a file of the cluster.
func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(c.file(name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func kubeconfig(server, ca, token string) string {
	return strings.NewReplacer("SERVER", server, "CA", ca, "TOKEN", token).Replace(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "SERVER", certificate-authority: "CA"}}]
users: [{name: admin, user: {token: "TOKEN"}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
`)
}
