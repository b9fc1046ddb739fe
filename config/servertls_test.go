package config

import (
	"crypto/tls"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testcert"
)

// serverFilesOf are the files of a server at localhost, in one directory.
func serverFilesOf(t *testing.T, pair testcert.Pair, ca testcert.CA) ServerTLS {
	t.Helper()
	dir := t.TempDir()
	files := ServerTLS{CertFile: dir + "/tls.crt", KeyFile: dir + "/tls.key", ClientCAFile: dir + "/ca.crt"}
	write(t, files.CertFile, pair.CertPEM)
	write(t, files.KeyFile, pair.KeyPEM)
	write(t, files.ClientCAFile, ca.PEM)
	return files
}

// greetWith accepts with c, and to each client that passes writes the common name
// of its certificate. What fails there is sent to failed.
func greetWith(t *testing.T, c *tls.Config) (address string, failed <-chan error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	errs, done := make(chan error, 16), make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			greet(conn.(*tls.Conn), errs)
		}
	}()
	return l.Addr().String(), errs
}

func greet(conn *tls.Conn, failed chan<- error) {
	defer conn.Close()
	if err := conn.Handshake(); err != nil {
		failed <- err
		return
	}
	name := "nobody"
	if certs := conn.ConnectionState().PeerCertificates; len(certs) > 0 {
		name = certs[0].Subject.CommonName
	}
	_, _ = conn.Write([]byte(name))
}

// visit connects as c says. It returns the name that the server calls the client,
// and the name in the server's certificate.
func visit(address string, c *tls.Config) (client, server string, err error) {
	conn, err := tls.Dial("tcp", address, c)
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	name := make([]byte, 64)
	n, err := conn.Read(name)
	return string(name[:n]), conn.ConnectionState().PeerCertificates[0].Subject.CommonName, err
}

// awaitError returns the next failure of a server.
func awaitError(t *testing.T, failed <-chan error) error {
	t.Helper()
	select {
	case err := <-failed:
		return err
	case <-time.After(await.Left(t)):
		t.Fatal("the server has let the client in, want a failed handshake")
		return nil
	}
}

func clientOf(ca testcert.CA, pairs ...testcert.Pair) *tls.Config {
	c := &tls.Config{RootCAs: ca.Pool, ServerName: "localhost", InsecureSkipVerify: true} // the name in it is what is looked at
	for _, p := range pairs {
		c.Certificates = append(c.Certificates, p.TLS)
	}
	return c
}

// rewrite writes a file at another time than before, as far as its modification time
// says: the clock of the file system may stand still for some milliseconds.
func rewrite(t *testing.T, path, text string) {
	t.Helper()
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, text)
	if err := os.Chtimes(path, time.Time{}, before.ModTime().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
}

func TestServerTLS(t *testing.T) {
	ca, other := testcert.NewCA(t), testcert.NewCA(t)
	full := serverFilesOf(t, ca.Issue(t, "localhost"), ca)
	open := full
	open.ClientCAFile = ""
	old := clientOf(ca)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	// A server that asks shows what CAs it takes, and a client in Go shows nothing
	// from another: show it all the same.
	foreign := clientOf(ca)
	foreign.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair := other.Issue(t, "mallory")
		return &pair.TLS, nil
	}
	for name, tt := range map[string]struct {
		files  ServerTLS
		client *tls.Config
		want   string
		err    string // of the server
	}{
		"no client certificate asked for":  {open, clientOf(ca), "nobody", ""},
		"client certificate":               {full, clientOf(ca, ca.Issue(t, "alice")), "alice", ""},
		"no client certificate":            {full, clientOf(ca), "", "didn't provide a certificate"},
		"client certificate of another CA": {full, foreign, "", "signed by unknown authority"},
		"client certificate expired":       {full, clientOf(ca, ca.IssueExpired(t, "alice")), "", "expired"},
		"TLS 1.1":                          {open, old, "", "unsupported versions"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := tt.files.Server()
			if err != nil {
				t.Fatalf("Server: %v", err)
			}
			address, failed := greetWith(t, c)
			got, _, err := visit(address, tt.client)
			if got != tt.want || (err != nil) != (tt.err != "") {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if tt.err == "" {
				return
			}
			if err := awaitError(t, failed); !strings.Contains(err.Error(), tt.err) {
				t.Errorf("server: got %v, want an error with %q", err, tt.err)
			}
		})
	}
}

func TestServerTLSRotates(t *testing.T) {
	ca, next := testcert.NewCA(t), testcert.NewCA(t)
	files := serverFilesOf(t, ca.Issue(t, "before"), ca)
	c, err := files.Server()
	if err != nil {
		t.Fatal(err)
	}
	address, failed := greetWith(t, c)
	alice, bob := clientOf(ca, ca.Issue(t, "alice")), clientOf(ca, next.Issue(t, "bob"))
	expect := func(when string, client *tls.Config, wantClient, wantServer string) {
		t.Helper()
		got, server, err := visit(address, client)
		if got != wantClient || server != wantServer || err != nil {
			t.Errorf("%s: got client %q, server %q, %v, want %q and %q", when, got, server, err, wantClient, wantServer)
		}
	}
	expect("at first", alice, "alice", "before")

	after := ca.Issue(t, "after")
	rewrite(t, files.CertFile, after.CertPEM)
	if _, _, err := visit(address, alice); err == nil {
		t.Error("between the two files: got a connection, want none")
	}
	want := "certificate file " + files.CertFile + " with key file " + files.KeyFile
	if err := awaitError(t, failed); !strings.Contains(err.Error(), want) {
		t.Errorf("between the two files: got %v, want %q", err, want)
	}
	rewrite(t, files.KeyFile, after.KeyPEM)
	expect("after both", alice, "alice", "after")

	rewrite(t, files.ClientCAFile, next.PEM)
	expect("new CA", bob, "bob", "after")
	if got, _, err := visit(address, alice); err == nil {
		t.Errorf("certificate of the old CA: got %q, want no connection", got)
	}
	awaitError(t, failed)

	if err := os.Remove(files.KeyFile); err != nil {
		t.Fatal(err)
	}
	if _, _, err := visit(address, bob); err == nil {
		t.Error("key removed: got a connection, want none")
	}
	if err := awaitError(t, failed); !strings.Contains(err.Error(), "key file "+files.KeyFile+": no such file") {
		t.Errorf("key removed: got %v, want that the file is missing", err)
	}
}

// Every client is verified by the files of the day: none goes on with a session
// that an earlier handshake has left it.
func TestServerTLSResumesNothing(t *testing.T) {
	ca := testcert.NewCA(t)
	c, err := serverFilesOf(t, ca.Issue(t, "localhost"), ca).Server()
	if err != nil {
		t.Fatal(err)
	}
	address, _ := greetWith(t, c)
	client := clientOf(ca, ca.Issue(t, "alice"))
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for range 2 {
		conn, err := tls.Dial("tcp", address, client)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 64)); err != nil { // tickets come before it
			t.Fatal(err)
		}
		if conn.ConnectionState().DidResume {
			t.Error("the second connection goes on with the session of the first, want a whole handshake")
		}
		conn.Close()
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:7443": true, "127.9.9.9:1": true, "[::1]:7443": true, "localhost:7443": true, "[::ffff:127.0.0.1]:1": true,
		":7443": false, "0.0.0.0:7443": false, "[::]:7443": false, "10.0.0.1:7443": false, "kafka:7443": false,
		"localhost.example.com:1": false, "127.0.0.1.example.com:1": false, "127.0.0.1": false, "": false,
	} {
		if got := Loopback(address); got != want {
			t.Errorf("Loopback(%q) = %t, want %t", address, got, want)
		}
	}
}
