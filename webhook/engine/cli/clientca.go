package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// clientTLS has each client show a certificate of a CA in --client-ca-name with the name --client-cn-name, as only the API
// server has. Without these flags every client is served.
func (o *options) clientTLS() *tls.Config {
	if o.clientCA == "" {
		return nil
	}
	return &tls.Config{
		// The own handshake of a readiness check has no certificate: in older versions it would fail.
		MinVersion:       tls.VersionTLS13,
		ClientAuth:       tls.RequireAnyClientCert,
		VerifyConnection: o.verifyClient,
	}
}

func (o *options) verifyClient(s tls.ConnectionState) error {
	roots, err := o.clientCAs()
	if err != nil {
		return err
	}
	rest := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		rest.AddCert(c)
	}
	client := s.PeerCertificates[0]
	if client.Subject.CommonName != o.clientCN {
		return fmt.Errorf("the client's certificate has the common name %q: want %q", client.Subject.CommonName, o.clientCN)
	}
	_, err = client.Verify(x509.VerifyOptions{Roots: roots, Intermediates: rest, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}

// clientCAs reads --client-ca-name, for each connection, as the file may change.
func (o *options) clientCAs() (*x509.CertPool, error) {
	text, err := os.ReadFile(filepath.Join(o.certDir, o.clientCA))
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = errors.New("no certificate is in the file")
	}
	if err != nil {
		return nil, fmt.Errorf("--client-ca-name: %w", err)
	}
	return pool, nil
}
