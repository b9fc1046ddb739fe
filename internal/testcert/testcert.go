// Package testcert makes the certificates of tests that speak TLS. What cannot be
// made ends the test; the files are removed with it.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// lifetime is how far the validity of a certificate reaches into the past and
// the future: more than a test lasts.
const lifetime = time.Hour

// CA is an authority that signs itself.
type CA struct {
	PEM  string         // its certificate
	File string         // that holds PEM
	Pool *x509.CertPool // that trusts it and no other

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes a CA. All have one name and differ in their keys, so that a test
// cannot pass by the name alone.
func NewCA(t testing.TB) CA {
	t.Helper()
	key := newKey(t)
	template := newTemplate("docket test CA")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	ca := CA{PEM: encode("CERTIFICATE", der), Pool: x509.NewCertPool(), cert: cert, key: key}
	ca.File = write(t, t.TempDir(), "ca.pem", ca.PEM)
	ca.Pool.AddCert(cert)
	return ca
}

// Pair is a certificate, for servers and clients alike, with its key.
type Pair struct {
	CertPEM, KeyPEM   string
	CertFile, KeyFile string // that hold them
	TLS               tls.Certificate
}

// Issue makes a pair for host and for others, each a name or an IP address. Its common
// name is host as well.
func (ca CA) Issue(t testing.TB, host string, others ...string) Pair {
	t.Helper()
	template := newTemplate(host)
	for _, other := range others {
		addHost(template, other)
	}
	return ca.issue(t, host, template)
}

func addHost(template *x509.Certificate, host string) {
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = append(template.IPAddresses, ip)
	} else {
		template.DNSNames = append(template.DNSNames, host)
	}
}

// IssueExpired makes a pair for host that was valid until a minute ago.
func (ca CA) IssueExpired(t testing.TB, host string) Pair {
	t.Helper()
	template := newTemplate(host)
	template.NotAfter = time.Now().Add(-time.Minute)
	return ca.issue(t, host, template)
}

func (ca CA) issue(t testing.TB, host string, template *x509.Certificate) Pair {
	t.Helper()
	key := newKey(t)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	addHost(template, host)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := Pair{
		CertPEM: encode("CERTIFICATE", der),
		KeyPEM:  encode("PRIVATE KEY", keyDER),
		TLS:     tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}
	p.CertFile = write(t, dir, "tls.crt", p.CertPEM)
	p.KeyFile = write(t, dir, "tls.key", p.KeyPEM)
	return p
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-lifetime),
		NotAfter:  time.Now().Add(lifetime),
	}
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func write(t testing.TB, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
