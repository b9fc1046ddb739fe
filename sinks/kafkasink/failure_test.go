package kafkasink

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

func TestErrorCodes(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs())
	for kind, codes := range map[sinks.Kind][]int16{
		sinks.Transient:     {-1, 2, 3, 5, 6, 7, 8, 9, 13, 19, 20, 56, 74, 89, 1234},
		sinks.Misconfigured: {17, 29, 31, 33, 34, 35, 43, 44, 54, 58, 76},
		sinks.Rejected:      {10, 18, 32, 87},
	} {
		for _, code := range codes {
			t.Run(fmt.Sprint(code), func(t *testing.T) {
				b.setAnswer(always(code))
				sendFails(t, s, batch(1, `{"a":1}`), kind, `topic "decisions" partition 0`, fmt.Sprintf("[%d]", code))
			})
		}
	}
}

func TestUnknownTopic(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs(), func(c *Config) { c.Topic = "decision" })
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured,
		`topic "decision" does not exist on the brokers: create it or mend kafka.topic`)
}

// Metadata is where kafka-go learns the cause, and Produce where it hides it.
func TestTopicErrors(t *testing.T) {
	for _, test := range []struct {
		code int16
		kind sinks.Kind
		want string
	}{
		{29, sinks.Misconfigured, "permit this client to write to the topic"},
		{17, sinks.Misconfigured, "mend kafka.topic"},
		{5, sinks.Transient, "Leader Not Available"},
	} {
		t.Run(fmt.Sprint(test.code), func(t *testing.T) {
			b := startBrokers(t, 1)
			b.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				res := req.ResponseKind().(*kmsg.MetadataResponse)
				rt := kmsg.NewMetadataResponseTopic()
				name := topic
				rt.Topic, rt.ErrorCode = &name, test.code
				res.Topics = append(res.Topics, rt)
				return res, nil, true
			})
			sendFails(t, openSink(t, b.ListenAddrs()), batch(1, `{"a":1}`), test.kind, `ask the brokers for topic "decisions"`, test.want)
		})
	}
}

func TestInternalTopic(t *testing.T) {
	b := startBrokers(t, 1, kfake.SeedTopics(1, "__consumer_offsets"))
	b.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		res := req.ResponseKind().(*kmsg.MetadataResponse)
		rt := kmsg.NewMetadataResponseTopic()
		name := "__consumer_offsets"
		rt.Topic, rt.IsInternal = &name, true
		res.Topics = append(res.Topics, rt)
		return res, nil, true
	})
	s := openSink(t, b.ListenAddrs(), func(c *Config) { c.Topic = "__consumer_offsets" })
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, "belongs to the brokers themselves")
}

func TestSilentBroker(t *testing.T) {
	address, _ := silent(t)
	s := openSink(t, []string{address}, func(c *Config) { c.Timeout = config.Duration(200 * time.Millisecond) })
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Transient, `topic "decisions"`)
}

// A broker that wants SASL closes the connection of a client without it.
func TestSASLListener(t *testing.T) {
	b := startBrokers(t, 1, kfake.EnableSASL(), kfake.Superuser("PLAIN", "docket", "s3cret"))
	sendFails(t, openSink(t, b.ListenAddrs()), batch(1, `{"a":1}`), sinks.Transient, "expects TLS or SASL")
}

func TestTLS(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	server := func(mutual bool) *tls.Config {
		c := &tls.Config{Certificates: []tls.Certificate{a.pair}}
		if mutual {
			c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, a.pool
		}
		return c
	}
	trust := config.TLS{CAFile: a.caFile}
	full := config.TLS{CAFile: a.caFile, CertFile: a.certFile, KeyFile: a.keyFile}
	for _, test := range []struct {
		name   string
		server *tls.Config
		client config.TLS
		want   string // in the error; empty for success
	}{
		{"trusted", server(false), trust, ""},
		{"mutual", server(true), full, ""},
		{"another CA", server(false), config.TLS{CAFile: other.caFile}, "check kafka.tls.caFile"},
		{"another name", server(false), config.TLS{CAFile: a.caFile, ServerName: "kafka-0"}, "kafka-0"},
		{"no client certificate", server(true), trust, "check kafka.tls.certFile"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := startBrokers(t, 1, kfake.TLS(test.server))
			s := openSink(t, b.ListenAddrs(), withTLS(test.client))
			if test.want == "" {
				send(t, s, batch(1, `{"a":1}`))
			} else {
				sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, test.want)
			}
		})
	}
}

// The broker of the Java world answers plain text with an alert, and hangs up
// on a TLS greeting, which it takes for the length of a huge request.
func TestTLSOnOneSideOnly(t *testing.T) {
	alert := []byte{21, 3, 3, 0, 2, 2, 80}
	t.Run("plain text to a TLS port", func(t *testing.T) {
		s := openSink(t, []string{answering(t, alert)})
		sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, "set kafka.tls")
	})
	t.Run("TLS to a plain port", func(t *testing.T) {
		s := openSink(t, []string{answering(t, nil)}, withTLS(config.TLS{}))
		sendFails(t, s, batch(1, `{"a":1}`), sinks.Transient, "expects TLS or SASL")
	})
	t.Run("TLS to another protocol", func(t *testing.T) {
		s := openSink(t, []string{answering(t, []byte("220 mail.example.com ESMTP\r\n"))}, withTLS(config.TLS{}))
		sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, "does not speak TLS")
	})
}

// answering listens, reads the beginning of what a client says, answers and
// hangs up.
func answering(t *testing.T, answer []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 4096))
			c.Write(answer)
			c.Close()
		}
	}()
	return l.Addr().String()
}

func TestChangedCA(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	b := startBrokers(t, 1, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{a.pair}}))
	s := openSink(t, b.ListenAddrs(), withTLS(config.TLS{CAFile: other.caFile}))
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, "caFile")
	if err := os.Remove(other.caFile); err != nil {
		t.Fatal(err)
	}
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, other.caFile)
	if err := os.Rename(a.caFile, other.caFile); err != nil {
		t.Fatal(err)
	}
	// Two files of one size made within a tick of the clock would look the same.
	if err := os.Chtimes(other.caFile, time.Now(), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	send(t, s, batch(1, `{"a":1}`))
	send(t, s, batch(2, `{"a":2}`))
}

func TestLostClientCertificate(t *testing.T) {
	a := newAuthority(t)
	b := startBrokers(t, 1, kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{a.pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool,
	}))
	s := openSink(t, b.ListenAddrs(), withTLS(config.TLS{CAFile: a.caFile, CertFile: a.certFile, KeyFile: a.keyFile}))
	if err := os.Remove(a.keyFile); err != nil {
		t.Fatal(err)
	}
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, a.keyFile)
}

// authority is a CA and a pair that it has signed for 127.0.0.1, as files.
type authority struct {
	caFile, certFile, keyFile string
	pool                      *x509.CertPool
	pair                      tls.Certificate
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	dir := t.TempDir()
	caKey, caCert := certificate(t, nil, nil)
	key, cert := certificate(t, caCert, caKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{
		caFile:   writePEM(t, filepath.Join(dir, "ca.pem"), "CERTIFICATE", caCert.Raw),
		certFile: writePEM(t, filepath.Join(dir, "tls.crt"), "CERTIFICATE", cert.Raw),
		keyFile:  writePEM(t, filepath.Join(dir, "tls.key"), "PRIVATE KEY", keyDER),
		pool:     x509.NewCertPool(),
		pair:     tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key},
	}
	a.pool.AddCert(caCert)
	return a
}

// certificate makes one signed by parent, or a CA that signs itself.
func certificate(t *testing.T, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: "docket test"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if parent == nil {
		template.IsCA, template.KeyUsage, template.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, cert
}

func writePEM(t *testing.T, path, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
