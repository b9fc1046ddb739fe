package sinktls

import (
	"crypto/tls"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/sinks"
)

// serve demands of one client a certificate that ca has signed, and writes a byte
// to it if it shows one.
func serve(t *testing.T, ca testcert.CA) (address string) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{ca.Issue(t, "127.0.0.1").TLS},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool,
	})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { l.Close(); serving.Wait() })
	serving.Go(func() {
		if conn, err := l.Accept(); err == nil {
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(await.Left(t)))
			conn.Write([]byte{1}) // shakes hands first; the client reports a failure
		}
	})
	return l.Addr().String()
}

// connect shakes hands with address and waits for a byte: with TLS 1.3 a server
// refuses a client only after the client's part of the handshake.
func connect(t *testing.T, address string, c *tls.Config) error {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: await.Left(t)}, "tcp", address, c)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(await.Left(t)))
	_, err = conn.Read(make([]byte, 1))
	return err
}

func client(t *testing.T, files config.TLS) *tls.Config {
	t.Helper()
	c, err := Client(files, "kafka.tls")
	if err != nil {
		t.Fatalf("Client = %v, want nil", err)
	}
	return c
}

func TestHint(t *testing.T) {
	ca, other := testcert.NewCA(t), testcert.NewCA(t)
	pair, foreign := ca.Issue(t, "alice"), other.Issue(t, "alice")
	full := config.TLS{CAFile: ca.File, CertFile: pair.CertFile, KeyFile: pair.KeyFile}
	const (
		verify  = "check kafka.tls.caFile: it must hold the CA that signed the broker's certificate"
		name    = "check kafka.tls.caFile and kafka.tls.serverName"
		refused = "the broker refused the TLS handshake: check kafka.tls.certFile and kafka.tls.keyFile"
	)
	for name, tt := range map[string]struct {
		files config.TLS
		want  string // empty for a connection
	}{
		"both agree":                 {full, ""},
		"another CA":                 {config.TLS{CAFile: other.File}, verify},
		"the CAs of the system":      {config.TLS{}, verify},
		"another name":               {config.TLS{CAFile: ca.File, ServerName: "kafka-0"}, name},
		"no client certificate":      {config.TLS{CAFile: ca.File}, refused},
		"foreign client certificate": {config.TLS{CAFile: ca.File, CertFile: foreign.CertFile, KeyFile: foreign.KeyFile}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			err := connect(t, serve(t, ca), client(t, tt.files))
			if tt.want == "" && err != nil {
				t.Fatalf("connect = %v, want nil", err)
			}
			if got := Hint(err, "kafka.tls", "broker"); got != tt.want {
				t.Errorf("Hint(%v)\ngot  %q\nwant %q", err, got, tt.want)
			}
		})
	}
	t.Run("another failure", func(t *testing.T) {
		err := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		if got := Hint(err, "kafka.tls", "broker"); got != "" {
			t.Errorf("Hint(%v) = %q, want none", err, got)
		}
	})
}

func TestLostClientCertificate(t *testing.T) {
	ca := testcert.NewCA(t)
	pair := ca.Issue(t, "alice")
	c := client(t, config.TLS{CAFile: ca.File, CertFile: pair.CertFile, KeyFile: pair.KeyFile})
	if err := os.Remove(pair.KeyFile); err != nil {
		t.Fatal(err)
	}
	err := connect(t, serve(t, ca), c)
	if err == nil {
		t.Fatal("connect = nil, want a failure")
	}
	want := "kafka.tls: key file " + pair.KeyFile + ": no such file or directory: mount it, or correct the path"
	if f := sinks.FailureOf(err); f.Kind != sinks.Misconfigured || f.Error() != want {
		t.Errorf("connect failed\nas %v: %v\nwant %v: %s", f.Kind, f, sinks.Misconfigured, want)
	}
}
