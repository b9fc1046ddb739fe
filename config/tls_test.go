package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority is a CA made for one test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := certTemplate(name)
	template.IsCA, template.BasicConstraintsValid = true, true
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

func certTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		DNSNames:     []string{name},
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// pem is the CA's certificate as a caFile holds it.
func (a authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// issue returns a certificate for name and its key, both PEM.
func (a authority) issue(t *testing.T, name string) (certPEM, keyPEM string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, certTemplate(name), a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	keyPEM = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	return certPEM, keyPEM
}

// serve accepts TLS connections on a loopback port. To each client that passes
// it writes the common name of the client's certificate.
func serve(t *testing.T, name string, ca, clients authority, maxVersion uint16) (address string) {
	t.Helper()
	certPEM, keyPEM := ca.issue(t, name)
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(clients.cert)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven,
		MinVersion: tls.VersionTLS10, MaxVersion: maxVersion,
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			greet(conn.(*tls.Conn))
		}
	}()
	return l.Addr().String()
}

func greet(conn *tls.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if conn.Handshake() != nil {
		return // the client reports it
	}
	name := "nobody"
	if certs := conn.ConnectionState().PeerCertificates; len(certs) > 0 {
		name = certs[0].Subject.CommonName
	}
	_, _ = conn.Write([]byte(name))
}

// dial connects as c says and returns what the server called the client.
func dial(address string, c *tls.Config) (string, error) {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: c}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	name := make([]byte, 64)
	n, err := conn.Read(name)
	return string(name[:n]), err
}

func TestTLSClient(t *testing.T) {
	dir := t.TempDir()
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	files := TLS{CAFile: dir + "/ca.pem", CertFile: dir + "/tls.crt", KeyFile: dir + "/tls.key"}
	certPEM, keyPEM := ca.issue(t, "alice")
	write(t, files.CAFile, "# a comment\n"+other.pem()+ca.pem())
	write(t, files.CertFile, certPEM)
	write(t, files.KeyFile, keyPEM)
	write(t, dir+"/other.pem", other.pem())
	server := serve(t, "localhost", ca, ca, tls.VersionTLS13)
	_, port, _ := net.SplitHostPort(server)

	tests := map[string]struct {
		tls     TLS
		address string
		want    string
		err     string
	}{
		"certificate shown":     {tls: files, address: "localhost:" + port, want: "alice"},
		"no certificate":        {tls: TLS{CAFile: files.CAFile}, address: "localhost:" + port, want: "nobody"},
		"server name":           {tls: TLS{CAFile: files.CAFile, ServerName: "localhost"}, address: server, want: "nobody"},
		"address not in it":     {tls: TLS{CAFile: files.CAFile}, address: server, err: "cannot validate certificate for 127.0.0.1"},
		"another server name":   {tls: TLS{CAFile: files.CAFile, ServerName: "kafka"}, address: server, err: "not kafka"},
		"another CA":            {tls: TLS{CAFile: dir + "/other.pem"}, address: "localhost:" + port, err: "certificate signed by unknown authority"},
		"the CAs of the system": {tls: TLS{}, address: "localhost:" + port, err: "certificate signed by unknown authority"},
		"TLS 1.1":               {tls: files, address: serve(t, "localhost", ca, ca, tls.VersionTLS11), err: "protocol version"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := tt.tls.Client()
			if err != nil {
				t.Fatalf("Client: %v", err)
			}
			got, err := dial(tt.address, c)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %q, %v, want an error with %q", got, err, tt.err)
				}
			} else if got != tt.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestTLSClientCertificateRotates(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t, "ca")
	files := TLS{CAFile: dir + "/ca.pem", CertFile: dir + "/tls.crt", KeyFile: dir + "/tls.key", ServerName: "localhost"}
	write(t, files.CAFile, ca.pem())
	server := serve(t, "localhost", ca, ca, tls.VersionTLS13)
	certPEM, keyPEM := ca.issue(t, "alice")
	write(t, files.CertFile, certPEM)
	write(t, files.KeyFile, keyPEM)
	c, err := files.Client()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := dial(server, c); got != "alice" || err != nil {
		t.Fatalf("before: got %q, %v, want alice", got, err)
	}

	certPEM, keyPEM = ca.issue(t, "bob")
	write(t, files.CertFile, certPEM)
	if got, err := dial(server, c); err == nil || !strings.Contains(err.Error(), "certificate file "+files.CertFile+" with key file "+files.KeyFile) {
		t.Errorf("between the two files: got %q, %v, want an error that names both", got, err)
	}
	write(t, files.KeyFile, keyPEM)
	// A transport works on a copy of the configuration, as net/http and kafka-go do.
	if got, err := dial(server, c.Clone()); got != "bob" || err != nil {
		t.Errorf("after: got %q, %v, want bob", got, err)
	}

	if err := os.Remove(files.KeyFile); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(server, c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("key removed: got %v, want that the file does not exist", err)
	}
}

func TestTLSCARotates(t *testing.T) {
	dir := t.TempDir()
	before, after := newAuthority(t, "before"), newAuthority(t, "after")
	files := TLS{CAFile: dir + "/ca.pem", ServerName: "localhost"}
	write(t, files.CAFile, before.pem())
	server := serve(t, "localhost", after, after, tls.VersionTLS13)

	version := files.CAVersion()
	c, err := files.Client()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial(server, c); err == nil {
		t.Fatal("before: the server of another CA was trusted")
	}
	if got := files.CAVersion(); got != version || got == "" {
		t.Errorf("nothing changed: got version %q, want %q", got, version)
	}

	// As the kubelet does: a new file takes the place of the old one.
	write(t, dir+"/new.pem", after.pem())
	if err := os.Chtimes(dir+"/new.pem", time.Time{}, time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+"/new.pem", files.CAFile); err != nil {
		t.Fatal(err)
	}
	if got := files.CAVersion(); got == version || got == "" {
		t.Errorf("the file was replaced: got version %q, want another than %q", got, version)
	}
	if c, err = files.Client(); err != nil {
		t.Fatal(err)
	}
	if got, err := dial(server, c); got != "nobody" || err != nil {
		t.Errorf("after: got %q, %v, want a connection", got, err)
	}

	if err := os.Remove(files.CAFile); err != nil {
		t.Fatal(err)
	}
	if got := files.CAVersion(); got != "" {
		t.Errorf("the file was removed: got version %q, want none", got)
	}
	if got := (TLS{}).CAVersion(); got != "" {
		t.Errorf("no file: got version %q, want none", got)
	}
}

func TestTLSClientErrors(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t, "ca")
	certPEM, keyPEM := ca.issue(t, "alice")
	_, otherKey := ca.issue(t, "bob")
	for name, text := range map[string]string{"ca": ca.pem(), "cert": certPEM, "key": keyPEM, "otherkey": otherKey, "text": "hello", "large": strings.Repeat("x", 1<<20+1)} {
		write(t, filepath.Join(dir, name), text)
	}
	tests := map[string]struct {
		tls  TLS
		want string
	}{
		"no CA file":     {TLS{CAFile: "DIR/gone"}, "ca file DIR/gone: no such file or directory: mount it, or correct the path"},
		"CA is text":     {TLS{CAFile: "DIR/text"}, "ca file DIR/text: holds no certificate in PEM form"},
		"CA is large":    {TLS{CAFile: "DIR/large"}, "ca file DIR/large: is larger than 1Mi: is it the right file?"},
		"no certificate": {TLS{CertFile: "DIR/gone", KeyFile: "DIR/key"}, "certificate file DIR/gone: no such file or directory: mount it, or correct the path"},
		"no key":         {TLS{CertFile: "DIR/cert", KeyFile: "DIR/gone"}, "key file DIR/gone: no such file or directory: mount it, or correct the path"},
		"another key":    {TLS{CertFile: "DIR/cert", KeyFile: "DIR/otherkey"}, "certificate file DIR/cert with key file DIR/otherkey: tls: private key does not match public key"},
		"switched": {TLS{CertFile: "DIR/key", KeyFile: "DIR/cert"}, "certificate file DIR/key with key file DIR/cert: tls: failed to find certificate PEM data in certificate input, " +
			"but did find a private key; PEM inputs may have been switched"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files := TLS{CAFile: inDir(tt.tls.CAFile, dir), CertFile: inDir(tt.tls.CertFile, dir), KeyFile: inDir(tt.tls.KeyFile, dir)}
			c, err := files.Client()
			if want := inDir(tt.want, dir); c != nil || errText(err) != want {
				t.Errorf("got %v\nwant %s", err, want)
			}
		})
	}
}

func inDir(s, dir string) string { return strings.ReplaceAll(s, "DIR", dir) }

func TestTLSValidate(t *testing.T) {
	tests := map[string]struct {
		yaml, want string
	}{
		"nothing":  {"{}", ""},
		"all":      {"{caFile: /ca, certFile: /crt, keyFile: /key, serverName: kafka}", ""},
		"no key":   {"{certFile: /crt}", "keyFile: must be set because certFile is"},
		"only key": {"{keyFile: /key}", "certFile: must be set because keyFile is"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var files TLS
			if p := parse(t, tt.yaml).Decode(&files); len(p) > 0 {
				t.Fatal(p)
			}
			if got := texts(files.Validate()); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
