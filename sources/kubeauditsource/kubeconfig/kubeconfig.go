// Package kubeconfig makes the file that points the audit webhook of a kube-apiserver at a
// source.
package kubeconfig

import (
	"bytes"
	"crypto/x509"
	_ "embed" // kubeconfig.txt
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sources/kubeauditsource"
)

// Options are what the configuration of a source does not say about the way to the
// source. Paths are those that kube-apiserver sees.
type Options struct {
	Server           string // URL; empty: the address of the source
	Authority        string
	Certificate, Key string
	TokenFile        string
	EmbedToken       bool
}

// FileError says that a file which the configuration of a source names cannot be used.
// Every other error is about Options that do not fit the source.
type FileError struct{ err error }

func (e *FileError) Error() string { return e.err.Error() }

func (e *FileError) Unwrap() error { return e.err }

// Make returns the kubeconfig for the source c that is called name, with a comment on
// top.
func (o Options) Make(name string, c *kubeauditsource.Config) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	server, err := o.serverURL(name, c)
	if err != nil {
		return nil, err
	}
	cluster := map[string]string{"server": server.String()}
	user := map[string]string{}
	if server.Scheme == "https" {
		if err := o.addServer(cluster, server.Hostname(), c.TLS); err != nil {
			return nil, err
		}
		if err := o.addClient(user, name, c); err != nil {
			return nil, err
		}
	} else if c.BearerTokenFile != "" || o.names() {
		// What is in a kubeconfig of who the client is counts only over TLS.
		return nil, fmt.Errorf("source %s asks for a token or a certificate, which kube-apiserver never sends over plain http: "+
			"set tls in the source, or omit bearerTokenFile and the flags for them", name)
	}
	return encode(name, cluster, user)
}

// check reports flags that do not fit together.
func (o Options) check() error {
	for _, f := range []struct{ flag, path string }{
		{"certificate-authority", o.Authority}, {"client-certificate", o.Certificate}, {"client-key", o.Key}, {"token-file", o.TokenFile},
	} {
		if f.path != "" && !filepath.IsAbs(f.path) {
			return fmt.Errorf("--%s %s: must be an absolute path, as kube-apiserver sees it", f.flag, f.path)
		}
	}
	switch {
	case (o.Certificate == "") != (o.Key == ""):
		return errors.New("--client-certificate and --client-key must be set together")
	case o.EmbedToken && o.TokenFile != "":
		return errors.New("--embed-token and --token-file must not be set together: choose one place for the token")
	}
	return nil
}

// names reports whether a flag says who the client is.
func (o Options) names() bool {
	return o.Certificate != "" || o.TokenFile != "" || o.EmbedToken
}

// serverURL is where events go: the address of the source, unless it was told.
func (o Options) serverURL(name string, c *kubeauditsource.Config) (*url.URL, error) {
	if o.Server != "" {
		return o.toldURL(c)
	}
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil {
		return nil, fmt.Errorf("source %s: address %s: %w", name, c.Address, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return nil, fmt.Errorf("source %s listens on every address (%s): set --server to the URL that kube-apiserver uses, such as https://10.0.0.7:8443",
			name, c.Address)
	}
	u := &url.URL{Scheme: "http", Host: c.Address, Path: kubeauditsource.Path}
	if c.TLS != nil {
		u.Scheme = "https"
	}
	return u, nil
}

// toldURL is that of --server. A proxy between the two may speak TLS where the source
// does not, but none would take it away.
func (o Options) toldURL(c *kubeauditsource.Config) (*url.URL, error) {
	u, err := url.Parse(o.Server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("--server: must be a URL such as https://10.0.0.7:8443, without user and query")
	}
	if c.TLS != nil && u.Scheme != "https" {
		return nil, fmt.Errorf("--server %s: must begin with https://, as the source has tls", o.Server)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = kubeauditsource.Path
	}
	return u, nil
}

// addServer says by what kube-apiserver knows the server. Without a CA it would trust
// those of its own system.
func (o Options) addServer(cluster map[string]string, host string, files *config.ServerTLS) error {
	if o.Authority != "" {
		cluster["certificate-authority"] = o.Authority
		return nil
	}
	if files == nil {
		return nil // a proxy in front of the source, about which nothing is known
	}
	chain, err := readChain(files.CertFile)
	if err != nil {
		return &FileError{fmt.Errorf("tls.certFile: %w, or set --certificate-authority to the CA", err)}
	}
	if chain[0].VerifyHostname(host) != nil {
		if len(chain[0].DNSNames) == 0 || strings.HasPrefix(chain[0].DNSNames[0], "*") {
			return fmt.Errorf("the certificate in %s is not valid for %s: set --server to a URL with a name from the certificate", files.CertFile, host)
		}
		cluster["tls-server-name"] = chain[0].DNSNames[0]
	}
	cluster["certificate-authority-data"] = base64.StdEncoding.EncodeToString(trusted(chain))
	return nil
}

// addClient says who kube-apiserver is.
func (o Options) addClient(user map[string]string, name string, c *kubeauditsource.Config) error {
	if c.TLS != nil && c.TLS.ClientCAFile != "" && o.Certificate == "" {
		return fmt.Errorf("source %s requires a client certificate signed by %s: set --client-certificate and --client-key to the files of kube-apiserver",
			name, c.TLS.ClientCAFile)
	}
	if o.Certificate != "" {
		user["client-certificate"], user["client-key"] = o.Certificate, o.Key
	}
	switch {
	case o.TokenFile != "":
		user["tokenFile"] = o.TokenFile
	case c.BearerTokenFile == "":
		if o.EmbedToken {
			return fmt.Errorf("--embed-token: source %s asks for no token: set its bearerTokenFile", name)
		}
	case o.EmbedToken:
		token, err := c.BearerTokenFile.Read()
		if err != nil {
			return &FileError{err}
		}
		user["token"] = token
	default:
		// A kubeconfig's paths begin at its own directory.
		path, err := filepath.Abs(string(c.BearerTokenFile))
		if err != nil {
			return &FileError{err}
		}
		user["tokenFile"] = path
	}
	return nil
}

// readChain returns the certificates in a PEM file, the server's own first.
func readChain(file string) ([]*x509.Certificate, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: write certificates in PEM form into it", file, err)
		}
		chain = append(chain, cert)
	}
	if len(chain) == 0 {
		return nil, fmt.Errorf("%s holds no certificate in PEM form: write the server's certificate into it", file)
	}
	return chain, nil
}

// trusted returns, in PEM form, what vouches for the first certificate of a chain: the
// rest of it, or the certificate itself, which lasts until it is renewed.
func trusted(chain []*x509.Certificate) []byte {
	if len(chain) > 1 && chain[0].CheckSignatureFrom(chain[1]) == nil {
		chain = chain[1:]
	} else {
		chain = chain[:1]
	}
	var b bytes.Buffer
	for _, cert := range chain {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	}
	return b.Bytes()
}

//go:embed kubeconfig.txt
var comment string

func encode(source string, cluster, user map[string]string) ([]byte, error) {
	named := func(name, key string, value map[string]string) any {
		return []any{map[string]any{"name": name, key: value}}
	}
	var b bytes.Buffer
	for line := range strings.Lines(strings.ReplaceAll(comment, "SOURCE", source)) {
		b.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	err := e.Encode(map[string]any{
		"apiVersion":      "v1",
		"kind":            "Config",
		"clusters":        named("docket", "cluster", cluster),
		"users":           named("kube-apiserver", "user", user),
		"contexts":        named("docket", "context", map[string]string{"cluster": "docket", "user": "kube-apiserver"}),
		"current-context": "docket",
	})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig as YAML: %w", err)
	}
	return b.Bytes(), e.Close()
}
