package config

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testcert"
)

// transportFiles are the files of a client, and the configuration of a server at
// 127.0.0.1 that asks for its certificate.
func transportFiles(t *testing.T) (files TLS, rotate func(name string), server *tls.Config) {
	t.Helper()
	dir, ca := t.TempDir(), testcert.NewCA(t)
	files = TLS{CAFile: ca.File, CertFile: dir + "/tls.crt", KeyFile: dir + "/tls.key", ServerName: "localhost"}
	rotate = func(name string) {
		pair := ca.Issue(t, name)
		write(t, files.CertFile, pair.CertPEM)
		write(t, files.KeyFile, pair.KeyPEM)
	}
	pair := ca.Issue(t, "localhost")
	server = &tls.Config{Certificates: []tls.Certificate{pair.TLS}, ClientCAs: ca.Pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	return files, rotate, server
}

func TestTLSClientInNetHTTP(t *testing.T) {
	files, rotate, serverConfig := transportFiles(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.TLS = serverConfig
	server.StartTLS()
	defer server.Close()

	rotate("alice")
	c, err := files.Client()
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: c}
	defer transport.CloseIdleConnections()
	for _, want := range []string{"alice", "bob"} {
		rotate(want)
		transport.CloseIdleConnections()
		answer, err := (&http.Client{Transport: transport, Timeout: await.Left(t)}).Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if string(got) != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

func TestTLSClientInKafkaTransport(t *testing.T) {
	files, rotate, serverConfig := transportFiles(t)
	names := make(chan string, 64) // more than there are connections
	serverConfig.VerifyConnection = func(s tls.ConnectionState) error {
		names <- s.PeerCertificates[0].Subject.CommonName
		return nil
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(serverConfig))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()

	rotate("alice")
	c, err := files.Client()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
	defer cancel()
	for _, want := range []string{"alice", "bob"} {
		rotate(want)
		transport := &kafka.Transport{TLS: c}
		client := &kafka.Client{Addr: kafka.TCP(cluster.ListenAddrs()...), Transport: transport}
		if _, err := client.Metadata(ctx, &kafka.MetadataRequest{}); err != nil {
			t.Fatal(err)
		}
		transport.CloseIdleConnections()
		// One transport opens several connections: those of the last one may
		// still be on their way.
		for got := ""; got != want; {
			select {
			case got = <-names:
			case <-ctx.Done():
				t.Fatalf("no connection shows %q, the last one showed %q", want, got)
			}
		}
	}
}
