package client

import (
	"bufio"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newTLSServer is an exporter that answers a line with the common name of the
// client's certificate. config is asked at each connection.
func newTLSServer(t *testing.T, config func() *tls.Config) (address string) {
	t.Helper()
	ln := listenOn(t, "tcp", "127.0.0.1:0")
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go greetOverTLS(tls.Server(nc, config()))
		}
	}()
	return "tcp://" + ln.Addr().String()
}

func greetOverTLS(conn *tls.Conn) {
	defer conn.Close()
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		return
	}
	name := "nobody"
	if certs := conn.ConnectionState().PeerCertificates; len(certs) > 0 {
		name = certs[0].Subject.CommonName
	}
	_, _ = io.WriteString(conn, name+"\n")
}

// greet makes one connection and returns what the server has called the client.
func greet(t *testing.T, dial Dial) (name string, err error) {
	t.Helper()
	nc, err := dial(t.Context())
	if err != nil {
		return "", err
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, "hello\n"); err != nil {
		return "", err
	}
	name, err = bufio.NewReader(nc).ReadString('\n')
	return strings.TrimSpace(name), err
}

// serverConfig shows a certificate and, if clients is given, asks for a certificate of it.
func serverConfig(shown pair, clients ...pair) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{shown.tls}}
	if len(clients) > 0 {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		c.ClientCAs.AddCert(clients[0].tls.Leaf)
	}
	return c
}

func checkError(t *testing.T, err error, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestTLSVerifiesTheExporter(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	byIP, byName := ca.issue(t, "127.0.0.1"), ca.issue(t, "docket.test")
	old := serverConfig(byIP)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	for name, test := range map[string]struct {
		server *tls.Config
		client TLSConfig
		wants  []string // in the error; nil: none
	}{
		"by address":     {serverConfig(byIP), TLSConfig{CAFile: ca.certFile}, nil},
		"by name":        {serverConfig(byName), TLSConfig{CAFile: ca.certFile, ServerName: "docket.test"}, nil},
		"another name":   {serverConfig(byName), TLSConfig{CAFile: ca.certFile}, []string{"x509: ", "set tls.serverName to a name that the certificate has"}},
		"another CA":     {serverConfig(byIP), TLSConfig{CAFile: other.certFile}, []string{"certificate signed by unknown authority", "write the CA of docket to " + other.certFile + " (tls.caFile)"}},
		"CAs of system":  {serverConfig(byIP), TLSConfig{}, []string{"certificate signed by unknown authority", "set tls.caFile to the CA of docket"}},
		"older than 1.2": {old, TLSConfig{CAFile: ca.certFile}, []string{"protocol version"}},
	} {
		t.Run(name, func(t *testing.T) {
			address := newTLSServer(t, func() *tls.Config { return test.server })
			got, err := greet(t, mustDial(t, &Config{Address: address, TLS: &test.client}))
			if test.wants != nil {
				checkError(t, err, append(test.wants, "tls handshake with "+strings.TrimPrefix(address, "tcp://")+": ")...)
				return
			}
			if err != nil || got != "nobody" {
				t.Errorf("got %q, %v, want nobody and no error", got, err)
			}
		})
	}
}

func TestTLSShowsTheClient(t *testing.T) {
	ca := newCA(t)
	own, stranger := ca.issue(t, "producer.test"), selfSigned(t, time.Now().Add(time.Hour))
	server := serverConfig(ca.issue(t, "127.0.0.1"), ca)
	address := newTLSServer(t, func() *tls.Config { return server })

	shown := TLSConfig{CAFile: ca.certFile, CertFile: own.certFile, KeyFile: own.keyFile}
	if got, err := greet(t, mustDial(t, &Config{Address: address, TLS: &shown})); err != nil || got != "producer.test" {
		t.Errorf("got %q, %v, want producer.test", got, err)
	}
	_, err := greet(t, mustDial(t, &Config{Address: address, TLS: &TLSConfig{CAFile: ca.certFile}}))
	checkError(t, err, "certificate required")

	// One that is not of the CA which the exporter names is shown all the same:
	// it says then what is wrong with it.
	shown.CertFile, shown.KeyFile = stranger.certFile, stranger.keyFile
	_, err = greet(t, mustDial(t, &Config{Address: address, TLS: &shown}))
	checkError(t, err, "remote error: tls: ")
	if err != nil && strings.Contains(err.Error(), "certificate required") {
		t.Errorf("got %v, want that the certificate is not accepted", err)
	}
}

// Both sides change CA and certificates between two connections of one Dial.
func TestTLSRotation(t *testing.T) {
	dir := t.TempDir()
	files := TLSConfig{CAFile: filepath.Join(dir, "ca.crt"), CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	mount := func(ca, client pair) {
		writeFile(t, files.CAFile, ca.certPEM)
		writeFile(t, files.CertFile, client.certPEM)
		writeFile(t, files.KeyFile, client.keyPEM)
	}
	servers := make(chan *tls.Config, 1)
	address := newTLSServer(t, func() *tls.Config { return <-servers })
	config := &Config{Address: address, TLS: &files}
	dial := mustDial(t, config) // before there are files

	_, err := dial(t.Context())
	checkError(t, err, "tls.caFile "+files.CAFile+": no such file or directory: mount it")
	for _, name := range []string{"first.test", "second.test"} {
		ca := newCA(t)
		mount(ca, ca.issue(t, name))
		servers <- serverConfig(ca.issue(t, "127.0.0.1"), ca)
		if got, err := greet(t, dial); err != nil || got != name {
			t.Errorf("got %q, %v, want %s", got, err, name)
		}
	}
	// Only half of a rotation is there.
	writeFile(t, files.CertFile, newCA(t).issue(t, "third.test").certPEM)
	_, err = dial(t.Context())
	checkError(t, err, "tls.certFile "+files.CertFile+" with tls.keyFile "+files.KeyFile, "private key does not match")
}

func TestTLSFilesThatCannotBeUsed(t *testing.T) {
	ca := newCA(t)
	pair := ca.issue(t, "producer.test")
	dir := t.TempDir()
	none, empty, noKey := filepath.Join(dir, "none"), filepath.Join(dir, "empty"), filepath.Join(dir, "key")
	writeFile(t, empty, "")
	writeFile(t, noKey, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
	for name, test := range map[string]struct {
		config TLSConfig
		want   string
	}{
		"no CA":          {TLSConfig{CAFile: none}, "tls.caFile " + none + ": no such file or directory"},
		"CA a directory": {TLSConfig{CAFile: dir}, "tls.caFile " + dir + ": is a directory"},
		"CA empty":       {TLSConfig{CAFile: empty}, "tls.caFile " + empty + ": holds no certificate in PEM form"},
		"no certificate": {TLSConfig{CertFile: none, KeyFile: pair.keyFile}, "tls.certFile " + none + ": no such file"},
		"no key":         {TLSConfig{CertFile: pair.certFile, KeyFile: none}, "tls.keyFile " + none + ": no such file"},
		"key of nothing": {TLSConfig{CertFile: pair.certFile, KeyFile: noKey}, "tls.certFile " + pair.certFile + " with tls.keyFile " + noKey + ": "},
	} {
		t.Run(name, func(t *testing.T) {
			ln := listenOn(t, "tcp", "127.0.0.1:0")
			_, err := mustDial(t, &Config{Address: "tcp://" + ln.Addr().String(), TLS: &test.config})(t.Context())
			checkError(t, err, test.want)
			if err != nil && (strings.Contains(err.Error(), "c2VjcmV0") || strings.Contains(err.Error(), "secret")) {
				t.Errorf("the key is in the message: %v", err)
			}
		})
	}
}

// pair is a certificate and its key, in files and for a server.
type pair struct {
	certPEM, certFile string
	keyPEM, keyFile   string
	tls               tls.Certificate
}

// newCA makes a CA. All have one name and differ in their keys, so that no test passes
// by the name alone.
func newCA(t *testing.T) pair {
	t.Helper()
	return newPair(t, nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "docket test CA"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
}

// issue makes a pair for a client or server named host.
func (ca pair) issue(t *testing.T, host string) pair {
	t.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: host}, NotAfter: time.Now().Add(time.Hour)}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	return newPair(t, &ca, template)
}

// selfSigned makes a pair for 127.0.0.1 without a CA and without any name.
func selfSigned(t *testing.T, notAfter time.Time) pair {
	t.Helper()
	return newPair(t, nil, &x509.Certificate{NotAfter: notAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
}

// newPair makes a certificate that by has signed, or that signs itself if by is nil.
func newPair(t *testing.T, by *pair, template *x509.Certificate) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.NotBefore = time.Now().Add(-2 * time.Hour)
	parent, signer := template, crypto.PrivateKey(key)
	if by != nil {
		parent, signer = by.tls.Leaf, by.tls.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := pair{
		certPEM:  string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		certFile: filepath.Join(dir, "tls.crt"),
		keyPEM:   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})),
		keyFile:  filepath.Join(dir, "tls.key"),
	}
	if p.tls, err = tls.X509KeyPair([]byte(p.certPEM), []byte(p.keyPEM)); err != nil {
		t.Fatal(err)
	}
	writeFile(t, p.certFile, p.certPEM)
	writeFile(t, p.keyFile, p.keyPEM)
	return p
}

func TestTLSAgainstNoTLS(t *testing.T) {
	for says, want := range map[string]string{
		"{\"docket\":{\"version\":1,\"error\":\"hello expected\"}}\n": "set tls in the source of docket",
		"": "EOF: the other side closed the connection",
	} {
		ln := listenOn(t, "tcp", "127.0.0.1:0")
		go func() {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			defer nc.Close()
			_, _ = nc.Read(make([]byte, 64<<10))
			_, _ = io.WriteString(nc, says)
		}()
		_, err := mustDial(t, &Config{Address: "tcp://" + ln.Addr().String(), TLS: &TLSConfig{}})(t.Context())
		checkError(t, err, want)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
