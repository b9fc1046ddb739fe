package kubeconfig

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/internal/testcli"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/kubeauditsource"
	"github.com/docket-export/docket/sources/sourcetest"
)

// auditConfig returns a source that asks for all it can ask for.
func auditConfig(t *testing.T, address string, server testcert.Pair, clients testcert.CA) *kubeauditsource.Config {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := kubeauditsource.Definition.NewConfig().(*kubeauditsource.Config)
	c.Address, c.BearerTokenFile = address, config.SecretFile(token)
	c.TLS = &config.ServerTLS{CertFile: server.CertFile, KeyFile: server.KeyFile, ClientCAFile: clients.File}
	return c
}

// readKubeconfig returns the cluster and the user that the current context of a
// kubeconfig names.
func readKubeconfig(t *testing.T, text []byte) (cluster, user map[string]string) {
	t.Helper()
	var k struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Current    string `yaml:"current-context"`
		Clusters   []struct {
			Name    string            `yaml:"name"`
			Cluster map[string]string `yaml:"cluster"`
		} `yaml:"clusters"`
		Users []struct {
			Name string            `yaml:"name"`
			User map[string]string `yaml:"user"`
		} `yaml:"users"`
		Contexts []struct {
			Name    string                         `yaml:"name"`
			Context struct{ Cluster, User string } `yaml:"context"`
		} `yaml:"contexts"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&k); err != nil {
		t.Fatalf("read kubeconfig: %v\n%s", err, text)
	}
	if len(k.Clusters) != 1 || len(k.Users) != 1 || len(k.Contexts) != 1 || k.APIVersion != "v1" || k.Kind != "Config" ||
		k.Contexts[0].Name != k.Current || k.Contexts[0].Context.Cluster != k.Clusters[0].Name || k.Contexts[0].Context.User != k.Users[0].Name {
		t.Fatalf("got parts that do not name each other:\n%s", text)
	}
	return k.Clusters[0].Cluster, k.Users[0].User
}

// clientOf does what an API server does with a kubeconfig.
func clientOf(t *testing.T, cluster, user map[string]string) *http.Client {
	t.Helper()
	c := &tls.Config{ServerName: cluster["tls-server-name"], RootCAs: x509.NewCertPool()}
	authority, err := base64.StdEncoding.DecodeString(cluster["certificate-authority-data"])
	if file := cluster["certificate-authority"]; file != "" {
		authority, err = os.ReadFile(file)
	}
	if err != nil || !c.RootCAs.AppendCertsFromPEM(authority) {
		t.Fatalf("got an authority %q, error %v, want certificates", authority, err)
	}
	if user["client-certificate"] != "" {
		pair, err := tls.LoadX509KeyPair(user["client-certificate"], user["client-key"])
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: c}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute}
}

// startAudit runs a source and waits until it can be reached.
func startAudit(t *testing.T, c *kubeauditsource.Config) *sourcetest.Intake {
	t.Helper()
	in := sourcetest.New()
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	source := c.New(sources.Env{Name: "apiserver", MaxRecordBytes: 1 << 20, StateDir: disk.At(t.TempDir()), Log: slog.New(slog.DiscardHandler)})
	go func() { ended <- source.Run(ctx, in, func() { close(ready) }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("source: got %v at its end, want nil", err)
		}
		in.Close()
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("source: got %v, want it to start", err)
	}
	return in
}

// postEvents sends one event as an API server does, and returns the status.
func postEvents(t *testing.T, client *http.Client, url, token string) int {
	t.Helper()
	body := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[{"auditID":"a","stage":"ResponseComplete"}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"?timeout=30s", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

// tokenOf is what an API server sends.
func tokenOf(t *testing.T, user map[string]string) string {
	t.Helper()
	if user["tokenFile"] == "" {
		return user["token"]
	}
	data, err := os.ReadFile(user["tokenFile"])
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// A source takes what is sent to it as the kubeconfig says, and nothing else.
func TestKubeconfigReachesSource(t *testing.T) {
	ca, clients := testcert.NewCA(t), testcert.NewCA(t)
	apiserver := clients.Issue(t, "kube-apiserver")
	for name, test := range map[string]struct {
		host    string // that the certificate is for; empty: that of the source's address
		chain   string // that follows the certificate
		options Options
		renewed bool // the file does for the next certificate of the CA as well
	}{
		"certificate alone":         {},
		"for another name":          {host: "docket.example.com"},
		"chain with its CA":         {chain: ca.PEM, renewed: true},
		"chain that is none":        {chain: clients.PEM},
		"CA in a file":              {options: Options{Authority: ca.File}, renewed: true},
		"token within":              {options: Options{EmbedToken: true}},
		"for another name, with CA": {host: "docket.example.com", chain: ca.PEM, renewed: true},
	} {
		t.Run(name, func(t *testing.T) {
			address, err := testcli.FreeAddress()
			if err != nil {
				t.Fatal(err)
			}
			own, _, _ := strings.Cut(address, ":")
			host := cmp.Or(test.host, own)
			server := ca.Issue(t, host)
			if err := os.WriteFile(server.CertFile, []byte(server.CertPEM+test.chain), 0o600); err != nil {
				t.Fatal(err)
			}
			c := auditConfig(t, address, server, clients)
			test.options.Certificate, test.options.Key = apiserver.CertFile, apiserver.KeyFile
			text, err := test.options.Make("apiserver", c)
			if err != nil {
				t.Fatal(err)
			}
			if inside := strings.Contains(string(text), "s3cret"); inside != test.options.EmbedToken {
				t.Errorf("got the token within: %v, want %v", inside, test.options.EmbedToken)
			}
			if test.renewed {
				next := ca.Issue(t, host)
				c.TLS.CertFile, c.TLS.KeyFile = next.CertFile, next.KeyFile
			}
			in := startAudit(t, c)
			cluster, user := readKubeconfig(t, text)
			if want := "https://" + c.Address + "/audit"; cluster["server"] != want {
				t.Errorf("got the server %q, want %q", cluster["server"], want)
			}
			client := clientOf(t, cluster, user)
			if got := postEvents(t, client, cluster["server"], "wrong"); got != http.StatusUnauthorized {
				t.Errorf("with another token: got the status %d, want 401", got)
			}
			if got := postEvents(t, client, cluster["server"], tokenOf(t, user)); got/100 != 2 || len(in.Lines()) != 1 {
				t.Errorf("got the status %d and %d records, want 2xx and 1", got, len(in.Lines()))
			}
		})
	}
}

func TestKubeconfigOverPlainHTTP(t *testing.T) {
	c := kubeauditsource.Definition.NewConfig().(*kubeauditsource.Config)
	c.Address = "localhost:8283"
	text, err := Options{}.Make("apiserver", c)
	if err != nil {
		t.Fatal(err)
	}
	cluster, user := readKubeconfig(t, text)
	if cluster["server"] != "http://localhost:8283/audit" || len(cluster) != 1 || len(user) != 0 {
		t.Errorf("got cluster %v and user %v, want http://localhost:8283/audit alone", cluster, user)
	}
}

func TestKubeconfigServer(t *testing.T) {
	server := testcert.NewCA(t).Issue(t, "10.0.0.7")
	files := &config.ServerTLS{CertFile: server.CertFile, KeyFile: server.KeyFile}
	for name, test := range map[string]struct {
		address string
		tls     *config.ServerTLS
		server  string
		want    string // the URL, or how the error begins
	}{
		"the address":                {"10.0.0.7:8443", files, "", "https://10.0.0.7:8443/audit"},
		"IPv6":                       {"[::1]:8283", nil, "", "http://[::1]:8283/audit"},
		"told":                       {":8443", files, "https://10.0.0.7:443", "https://10.0.0.7:443/audit"},
		"told with a path":           {":8443", files, "https://10.0.0.7/docket/events", "https://10.0.0.7/docket/events"},
		"told with a slash":          {":8443", files, "https://10.0.0.7/", "https://10.0.0.7/audit"},
		"told IPv6":                  {"127.0.0.1:8283", nil, "http://[::1]:8283", "http://[::1]:8283/audit"},
		"proxy with TLS":             {"127.0.0.1:8283", nil, "https://10.0.0.7", "https://10.0.0.7/audit"},
		"every address":              {":8443", files, "", "source apiserver listens on every address (:8443): set --server"},
		"every IPv4 address":         {"0.0.0.0:8443", files, "", "source apiserver listens on every address"},
		"every IPv6 address":         {"[::]:8443", files, "", "source apiserver listens on every address"},
		"plain to a source with TLS": {":8443", files, "http://10.0.0.7:8443", "--server http://10.0.0.7:8443: must begin with https://"},
		"no URL":                     {":8443", files, "10.0.0.7:8443", "--server: must be a URL"},
		"another scheme":             {":8443", files, "ftp://10.0.0.7", "--server: must be a URL"},
		"no host":                    {":8443", files, "https:///audit", "--server: must be a URL"},
		"with a password":            {":8443", files, "https://me:s3cret@10.0.0.7", "--server: must be a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &kubeauditsource.Config{Address: test.address, TLS: test.tls}
			text, err := Options{Server: test.server}.Make("apiserver", c)
			var got string
			if err != nil {
				got = err.Error()
			} else {
				cluster, _ := readKubeconfig(t, text)
				got = cluster["server"]
			}
			if !strings.HasPrefix(got, test.want) || err == nil && got != test.want || strings.Contains(got, "s3cret") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// What would make a file that cannot work is refused.
func TestKubeconfigProblems(t *testing.T) {
	ca := testcert.NewCA(t)
	const address = "127.0.0.1:8283"
	good := auditConfig(t, address, ca.Issue(t, "127.0.0.1"), ca)
	wild := auditConfig(t, address, ca.Issue(t, "*.example.com"), ca)
	other := auditConfig(t, address, ca.Issue(t, "10.0.0.7"), ca)
	empty, missing, noToken, plain := *good, *good, *good, *good
	empty.TLS = &config.ServerTLS{CertFile: good.TLS.KeyFile}
	missing.TLS = &config.ServerTLS{CertFile: "/no/such/file"}
	noToken.BearerTokenFile, noToken.TLS = "", &config.ServerTLS{CertFile: good.TLS.CertFile}
	plain.TLS = nil
	client := Options{Certificate: "/etc/tls.crt", Key: "/etc/tls.key"}
	tokenWithin := client
	tokenWithin.EmbedToken = true
	lost := *good
	lost.BearerTokenFile = "/no/such/token"

	for name, test := range map[string]struct {
		config  *kubeauditsource.Config
		options Options
		want    string
		code    int
	}{
		"no client certificate":    {good, Options{}, "requires a client certificate signed by " + ca.File, 2},
		"half of a pair":           {good, Options{Key: "/etc/tls.key"}, "--client-certificate and --client-key must be set together", 2},
		"relative path":            {good, Options{TokenFile: "token"}, "--token-file token: must be an absolute path", 2},
		"token twice":              {good, Options{TokenFile: "/t", EmbedToken: true}, "--embed-token and --token-file must not be set together", 2},
		"no token to embed":        {&noToken, Options{EmbedToken: true}, "source apiserver asks for no token", 2},
		"token cannot be read":     {&lost, tokenWithin, "secret file /no/such/token: no such file", 1},
		"token over plain http":    {&plain, Options{}, "asks for a token or a certificate, which kube-apiserver never sends over plain http", 2},
		"pair over plain http":     {&kubeauditsource.Config{Address: "127.0.0.1:1"}, client, "asks for a token or a certificate, which kube-apiserver never sends over plain http", 2},
		"certificate for others":   {other, client, "is not valid for 127.0.0.1: set --server", 2},
		"certificate for many":     {wild, client, "is not valid for 127.0.0.1: set --server", 2},
		"certificate missing":      {&missing, client, "tls.certFile: open /no/such/file: no such file or directory, or set --certificate-authority", 1},
		"no certificate in a file": {&empty, client, "holds no certificate in PEM form", 1},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := test.options.Make("apiserver", test.config)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v and\n%s\nwant an error with %q", err, text, test.want)
			}
			code := 2
			if _, ok := errors.AsType[*FileError](err); ok {
				code = 1
			}
			if code != test.code {
				t.Errorf("got the exit code %d, want %d", code, test.code)
			}
		})
	}
}

// The comment has an audit policy that can be used as it is.
func TestKubeconfigPolicy(t *testing.T) {
	_, after, found := strings.Cut(comment, "\n  apiVersion: audit.k8s.io/v1\n")
	if !found {
		t.Fatalf("got no policy in\n%s", comment)
	}
	var policy struct {
		Kind       string                   `yaml:"kind"`
		OmitStages []string                 `yaml:"omitStages"`
		Rules      []struct{ Level string } `yaml:"rules"`
	}
	if err := yaml.Unmarshal([]byte("  apiVersion: audit.k8s.io/v1\n"+after), &policy); err != nil {
		t.Fatal(err)
	}
	if n := len(policy.Rules); policy.Kind != "Policy" || n == 0 || policy.Rules[n-1].Level != "Metadata" {
		t.Errorf("got %+v, want a Policy that ends with level Metadata for everything else", policy)
	}
}
