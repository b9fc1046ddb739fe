package config

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/testcert"
)

// serve accepts TLS connections on a loopback port, as localhost. To each client
// that passes it writes the common name of the client's certificate.
func serve(t *testing.T, ca testcert.CA, maxVersion uint16) (address string) {
	t.Helper()
	address, _ = greetWith(t, &tls.Config{
		Certificates: []tls.Certificate{ca.Issue(t, "localhost").TLS}, ClientCAs: ca.Pool, ClientAuth: tls.VerifyClientCertIfGiven,
		MinVersion: tls.VersionTLS10, MaxVersion: maxVersion,
	})
	return address
}

// dial connects as c says and returns what the server called the client.
func dial(address string, c *tls.Config) (string, error) {
	client, _, err := visit(address, c)
	return client, err
}

func TestTLSClient(t *testing.T) {
	ca, other := testcert.NewCA(t), testcert.NewCA(t)
	alice := ca.Issue(t, "alice")
	files := TLS{CAFile: t.TempDir() + "/ca.pem", CertFile: alice.CertFile, KeyFile: alice.KeyFile}
	write(t, files.CAFile, "# a comment\n"+other.PEM+ca.PEM)
	server := serve(t, ca, tls.VersionTLS13)
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
		"another CA":            {tls: TLS{CAFile: other.File}, address: "localhost:" + port, err: "certificate signed by unknown authority"},
		"the CAs of the system": {tls: TLS{}, address: "localhost:" + port, err: "certificate signed by unknown authority"},
		"TLS 1.1":               {tls: files, address: serve(t, ca, tls.VersionTLS11), err: "protocol version"},
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
	ca := testcert.NewCA(t)
	alice, bob := ca.Issue(t, "alice"), ca.Issue(t, "bob")
	files := TLS{CAFile: ca.File, CertFile: alice.CertFile, KeyFile: alice.KeyFile, ServerName: "localhost"}
	server := serve(t, ca, tls.VersionTLS13)
	c, err := files.Client()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := dial(server, c); got != "alice" || err != nil {
		t.Fatalf("before: got %q, %v, want alice", got, err)
	}

	write(t, files.CertFile, bob.CertPEM)
	if got, err := dial(server, c); err == nil || !strings.Contains(err.Error(), "certificate file "+files.CertFile+" with key file "+files.KeyFile) {
		t.Errorf("between the two files: got %q, %v, want an error that names both", got, err)
	}
	write(t, files.KeyFile, bob.KeyPEM)
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
	before, after := testcert.NewCA(t), testcert.NewCA(t)
	files := TLS{CAFile: before.File, ServerName: "localhost"}
	server := serve(t, after, tls.VersionTLS13)

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
	if err := os.Chtimes(after.File, time.Time{}, time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(after.File, files.CAFile); err != nil {
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
	if got := files.CAVersion(); got == version {
		t.Errorf("the file was removed: got version %q, want another", got)
	}
	if got := (TLS{}).CAVersion(); got != "" {
		t.Errorf("no file: got version %q, want none", got)
	}
}

func TestTLSClientErrors(t *testing.T) {
	dir := t.TempDir()
	ca := testcert.NewCA(t)
	alice, bob := ca.Issue(t, "alice"), ca.Issue(t, "bob")
	for name, text := range map[string]string{"cert": alice.CertPEM, "key": alice.KeyPEM, "otherkey": bob.KeyPEM, "text": "hello", "large": strings.Repeat("x", 1<<20+1)} {
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
