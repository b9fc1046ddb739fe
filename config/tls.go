package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// TLS is how a client verifies a server and shows who it is. The zero value
// trusts the CAs of the system and shows no certificate.
type TLS struct {
	// CAFile holds the certificates of the CAs to trust instead of the system's CAs, in PEM form.
	CAFile string `yaml:"caFile" file:"public"`
	// CertFile holds the client's certificate and its chain, in PEM form.
	CertFile string `yaml:"certFile" file:"public"`
	// KeyFile holds the key of that certificate, in PEM form.
	KeyFile string `yaml:"keyFile" file:"secret"`
	// ServerName is the name that the server's certificate must have. Empty
	// means the host that is connected to.
	ServerName string `yaml:"serverName"`
}

// Validate reports a certificate without its key, and a key without its certificate. It does not
// touch the files. A nil TLS is valid.
func (t *TLS) Validate() Problems {
	if t == nil {
		return nil
	}
	var p Problems
	p.Refuse(t.CertFile != "" && t.KeyFile == "", "keyFile", "must be set because certFile is")
	p.Refuse(t.KeyFile != "" && t.CertFile == "", "certFile", "must be set because keyFile is")
	return p
}

// Client makes a configuration for connections to a server, TLS 1.2 or newer. An error means that
// a file is missing or not usable, and names the file.
//
// The client's certificate and key are read again for every handshake. A rotated pair is in use
// from the next connection on. A pair that cannot be read fails that handshake. The CAs are fixed,
// because crypto/tls has no safe way to change them: see CAVersion.
func (t TLS) Client() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pool, err := readCAs(t.CAFile)
		if err != nil {
			return nil, err
		}
		c.RootCAs = pool
	}
	if t.CertFile != "" {
		if _, err := readPair(t.CertFile, t.KeyFile); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return readPair(t.CertFile, t.KeyFile)
		}
	}
	return c, nil
}

// CAVersion names the state of the CA file; it costs one stat. If you keep a configuration that
// Client made, read the version before you call Client, and compare it before each use. Make a new
// configuration and new connections when it differs. It is empty without a CA file.
func (t TLS) CAVersion() string {
	if t.CAFile == "" {
		return ""
	}
	return fileVersions(t.CAFile)
}

func readPair(certFile, keyFile string) (*tls.Certificate, error) {
	certPEM, err := readFile(certFile, maxPEMBytes)
	if err != nil {
		return nil, fmt.Errorf("certificate file %s: %w", certFile, err)
	}
	keyPEM, err := readFile(keyFile, maxPEMBytes)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", keyFile, err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate file %s with key file %s: %w", certFile, keyFile, err)
	}
	return &pair, nil
}

func readCAs(path string) (*x509.CertPool, error) {
	data, err := readFile(path, maxPEMBytes)
	if err != nil {
		return nil, fmt.Errorf("ca file %s: %w", path, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("ca file %s: holds no certificate in PEM form", path)
	}
	return pool, nil
}
