package kubetest

import (
	"cmp"
	_ "embed"
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/server"
)

var (
	//go:embed testdata/gatekeeper.yaml.tmpl
	gatekeeperManifests string
	//go:embed testdata/webhook.yaml.tmpl
	webhookManifest string
)

const (
	// webhookPort is that of the webhook and of its Service, which must be the same:
	// an address of a Service is a process here. Any user may listen on it.
	webhookPort = 8443
	// WebhookName is the name of the Service of the webhook, for which its certificate is.
	WebhookName = "gatekeeper-webhook-service.gatekeeper-system.svc"
)

// GatekeeperOptions are what a test may ask of Gatekeeper.
type GatekeeperOptions struct {
	AuditSeconds    int // from one audit to the next
	MaxAuditResults int // finished runs that the disk export keeps: 5 at most
	// Export is the directory of the disk export, which need not be there; "": one of
	// its own. Below it each channel has a directory: here AuditChannel alone.
	Export string
	// Front leaves Gatekeeper.Service to the test, which puts there what stands between
	// the API server and the webhook.
	Front bool
	// Inside runs the program that has docket's client in it. It is the same until the
	// test tells it of a docket: the audit by a Connection, the webhook by its flag
	// --docket-address.
	Inside bool
}

// AuditChannel is the channel of what audits find.
const AuditChannel = "audit-channel"

// Gatekeeper is a running Gatekeeper: a process with the admission webhook, whose
// denials are logged, and one that audits and exports what it finds to the disk.
type Gatekeeper struct {
	Webhook, Audit *server.Server
	Export         string // as in GatekeeperOptions
	Service        string // address that the API server calls, host:port
	Address        string // where the webhook listens: Service, unless GatekeeperOptions.Front
	CA             testcert.CA
	Certificate    testcert.Pair // the webhook's, for the name of the Service; CA has issued it

	cluster  *Cluster
	apiCache string // directory in which an audit keeps what it has listed
}

// StartGatekeeper starts both processes and returns when they serve and the API
// server calls the Service of the webhook. They end with the test.
func (c *Cluster) StartGatekeeper(o GatekeeperOptions) *Gatekeeper {
	c.t.Helper()
	release := gatekeeperRelease(c.t)
	ca := testcert.NewCA(c.t)
	g := &Gatekeeper{
		Export: cmp.Or(o.Export, c.file("export")), CA: ca, Certificate: ca.Issue(c.t, WebhookName),
		cluster: c, apiCache: c.file("api-cache"),
	}
	port := strconv.Itoa(webhookPort)
	service := c.services + "20"
	host := service
	if o.Front {
		host = c.services + "21"
	}
	g.Service, g.Address = net.JoinHostPort(service, port), net.JoinHostPort(host, port)
	c.installGatekeeper(release, g.Export, o.MaxAuditResults)
	g.MendAudits()
	// Names that Gatekeeper gives to them; the certificate's own are the same.
	certificates := filepath.Dir(g.Certificate.CertFile)

	if o.Inside {
		release = gatekeeperInside(c.t)
	}
	program := filepath.Join(release, "gatekeeper")
	g.Webhook = c.gatekeeperProcess(program, "gatekeeper-controller-manager-0",
		"--operation", "webhook", "--operation", "status", "--operation", "generate", "--log-denies",
		"--host", host, "--port", port, "--cert-dir", certificates)
	g.Audit = c.gatekeeperProcess(program, "gatekeeper-audit-0",
		"--operation", "audit", "--operation", "status", "--audit-interval", strconv.Itoa(o.AuditSeconds),
		"--api-cache-dir", g.apiCache, "--enable-violation-export", "--audit-connection", "audit-connection", "--audit-channel", AuditChannel,
		"--constraint-violations-limit", "5", "--cert-dir", certificates)
	g.Webhook.Start(c.t)
	g.Audit.Start(c.t)
	c.Apply(c.render(webhookManifest, map[string]any{"CA": base64.StdEncoding.EncodeToString([]byte(ca.PEM)), "Port": webhookPort}))
	return g
}

// installGatekeeper makes the objects without which Gatekeeper does not start.
func (c *Cluster) installGatekeeper(release, export string, maxAuditResults int) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(release, "gatekeeper.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	var definitions []string
	for _, manifest := range strings.Split(string(text), "\n---\n") {
		if strings.Contains("\n"+manifest, "\nkind: CustomResourceDefinition\n") || strings.Contains("\n"+manifest, "\nkind: Namespace\n") {
			definitions = append(definitions, manifest)
		}
	}
	c.Apply(strings.Join(definitions, "\n---\n"))
	c.Apply(c.render(gatekeeperManifests, map[string]any{
		"Host": c.services + "20", "Port": webhookPort, "Export": export, "MaxAuditResults": maxAuditResults,
	}))
}

// gatekeeperProcess is a process of Gatekeeper that knows itself as that Pod.
func (c *Cluster) gatekeeperProcess(program, pod string, args ...string) *server.Server {
	c.t.Helper()
	addresses, err := freeport.Loopback(2)
	if err != nil {
		c.t.Fatal(err)
	}
	_, metrics, _ := net.SplitHostPort(addresses[0])
	return &server.Server{
		Name:    pod,
		Program: program,
		Args: append([]string{
			"--kubeconfig", c.Kubeconfig, "--disable-cert-rotation", "--shutdown-delay", "0",
			"--metrics-backend=prometheus", "--prometheus-port", metrics, "--health-addr", addresses[1],
		}, args...),
		Env:   []string{"POD_NAMESPACE=gatekeeper-system", "POD_NAME=" + pod, "NAMESPACE=gatekeeper-system", "CONTAINER_NAME=manager"},
		Log:   c.file(pod + ".log"),
		Ready: func() error { return getOK("http://" + addresses[1] + "/readyz") },
	}
}

// MendAudits undoes BreakAudits.
func (g *Gatekeeper) MendAudits() {
	g.cluster.t.Helper()
	if err := os.MkdirAll(g.apiCache, 0o755); err != nil {
		g.cluster.t.Fatal(err)
	}
}

// render fills in a template.
func (c *Cluster) render(text string, data any) string {
	c.t.Helper()
	var out strings.Builder
	if err := template.Must(template.New("").Parse(text)).Execute(&out, data); err != nil {
		c.t.Fatal(err)
	}
	return out.String()
}
