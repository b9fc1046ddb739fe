package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// checkCertificates refuses a directory that is not there. Its files may come later: in a cluster
// a controller makes them.
func (o *options) checkCertificates() error {
	if o.selfSigned {
		if err := selfSign(o.certDir); err != nil {
			return fmt.Errorf("--self-signed: %w: name a directory that can be written with --cert-dir", err)
		}
	}
	if _, err := os.ReadDir(o.certDir); err != nil {
		return fmt.Errorf("--cert-dir: %w: mount the Secret with tls.crt and tls.key there or, to try it out, add --cert-dir certs --self-signed", err)
	}
	if o.clientCA != "" {
		_, err := o.clientCAs()
		return err
	}
	return nil
}

// selfSign makes a certificate for localhost, unless there is one.
func selfSign(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "tls.crt")); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	now := time.Now()
	certificate := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "docket-webhook, self-signed"},
		NotBefore: now.Add(-time.Minute), NotAfter: now.AddDate(1, 0, 0),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	text, err := x509.CreateCertificate(rand.Reader, certificate, certificate, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	// The key first: its pair counts once the certificate is there.
	return errors.Join(writePEM(filepath.Join(dir, "tls.key"), "PRIVATE KEY", secret), writePEM(filepath.Join(dir, "tls.crt"), "CERTIFICATE", text))
}

func writePEM(path, kind string, der []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Close())
}
