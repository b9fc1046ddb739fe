package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
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
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "localhost"}, key)
	if err != nil {
		return err
	}
	secret, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	text, err := cert.EncodeCertificates(certificate)
	if err != nil {
		return err
	}
	// The key first: its pair counts once the certificate is there.
	return errors.Join(writeNew(filepath.Join(dir, "tls.key"), secret), writeNew(filepath.Join(dir, "tls.crt"), text))
}

// writeNew writes a file that is not there yet.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
