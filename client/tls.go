package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
)

// TLSConfig is how the client verifies the exporter and shows who it is. The
// zero value trusts the CAs of the system and shows no certificate.
//
// The files are read for each connection, so that rotated certificates are in use from
// the next one on; an open connection keeps the old ones. A file that cannot be read
// fails the attempt, and the next one reads it again.
type TLSConfig struct {
	// CAFile holds the certificates of the CAs to trust instead of the system's CAs, in PEM form.
	// The system's CAs are read once in a process.
	CAFile string
	// CertFile holds the client's certificate and its chain, in PEM form.
	CertFile string
	// KeyFile holds the key of that certificate, in PEM form.
	KeyFile string
	// ServerName is the name that the exporter's certificate must have. Default:
	// the host of the address.
	ServerName string
}

// problems are the mistakes that can be seen without touching the files.
func (t *TLSConfig) problems() problems {
	var found problems
	if t.CertFile != "" && t.KeyFile == "" {
		found.addf("tls.keyFile", "must be set because certFile is")
	}
	if t.KeyFile != "" && t.CertFile == "" {
		found.addf("tls.certFile", "must be set because keyFile is")
	}
	return found
}

// over returns TLS over the connections of plain, which lead to host. It works
// on a copy of t.
func (t *TLSConfig) over(plain Dial, host string) Dial {
	own := *t
	if own.ServerName == "" {
		own.ServerName = host
	}
	return func(ctx context.Context) (net.Conn, error) {
		config, err := own.load()
		if err != nil {
			return nil, err
		}
		nc, err := plain(ctx)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(nc, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, fmt.Errorf("tls handshake with %s: %w%s", nc.RemoteAddr(), err, own.hint(err))
		}
		return conn, nil
	}
}

// load reads the files.
func (t *TLSConfig) load() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		data, err := readFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.caFile %s: %w", t.CAFile, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("tls.caFile %s: holds no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile == "" {
		return config, nil
	}
	cert, err := readFile(t.CertFile)
	if err != nil {
		return nil, fmt.Errorf("tls.certFile %s: %w", t.CertFile, err)
	}
	key, err := readFile(t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls.keyFile %s: %w", t.KeyFile, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls.certFile %s with tls.keyFile %s: %w", t.CertFile, t.KeyFile, err)
	}
	// Unlike config.Certificates, this shows the certificate also to a server that
	// does not know its CA, and then says so; else it would miss one.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &pair, nil
	}
	return config, nil
}

// hint ends the message about a failed handshake with what to do.
func (t *TLSConfig) hint(err error) string {
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)) && t.CAFile == "":
		return ": set tls.caFile to the CA of docket"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return ": write the CA of docket to " + t.CAFile + " (tls.caFile)"
	case errors.As(err, new(x509.HostnameError)):
		return ": set tls.serverName to a name that the certificate has"
	case errors.As(err, new(tls.RecordHeaderError)):
		return ": set tls in the source of docket"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return ": no answer: check that docket listens at this address"
	case errors.Is(err, io.EOF):
		return ": the other side closed the connection"
	}
	return ""
}

// readFile reads a file. The error does not name it.
func readFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	return data, withHint(err)
}

// withHint drops the path from an error of package os and says what to do.
func withHint(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: mount it, or correct the path", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: let the user of this process read it", err)
	}
	return err
}
