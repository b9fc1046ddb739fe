package kafkasink

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/sinks"
)

func TestErrorCodes(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs())
	seq := uint64(0) // another each time: a request that is repeated is not rejected
	for kind, codes := range map[sinks.Kind][]int16{
		sinks.Transient:     {-1, 2, 3, 5, 6, 7, 8, 9, 13, 19, 20, 56, 74, 89, 1234},
		sinks.Misconfigured: {17, 29, 31, 33, 34, 35, 43, 44, 54, 58, 76},
		sinks.Rejected:      {10, 18, 32, 87},
	} {
		for _, code := range codes {
			t.Run(fmt.Sprint(code), func(t *testing.T) {
				b.setAnswer(always(code))
				seq++
				sendFails(t, s, batch(seq, `{"a":1}`), kind, `topic "decisions" partition 0`, fmt.Sprintf("[%d]", code))
			})
		}
	}
}

func TestUnknownTopic(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs(), func(c *Config) { c.Topic = "decision" })
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured,
		`topic "decision" does not exist on the brokers: create it or correct kafka.topic`)
}

// Metadata is where kafka-go learns the cause, and Produce where it hides it.
func TestTopicErrors(t *testing.T) {
	for _, test := range []struct {
		code int16
		kind sinks.Kind
		want string
	}{
		{29, sinks.Misconfigured, "permit this client to write to the topic"},
		{17, sinks.Misconfigured, "correct kafka.topic"},
		{5, sinks.Transient, "Leader Not Available"},
	} {
		t.Run(fmt.Sprint(test.code), func(t *testing.T) {
			b := startBrokers(t, 1)
			b.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				res := req.ResponseKind().(*kmsg.MetadataResponse)
				rt := kmsg.NewMetadataResponseTopic()
				name := testTopic
				rt.Topic, rt.ErrorCode = &name, test.code
				res.Topics = append(res.Topics, rt)
				return res, nil, true
			})
			sendFails(t, openSink(t, b.ListenAddrs()), batch(1, `{"a":1}`), test.kind, `ask the brokers for topic "decisions"`, test.want)
		})
	}
}

func TestTLS(t *testing.T) {
	ca, other := testcert.NewCA(t), testcert.NewCA(t)
	pair := ca.Issue(t, "127.0.0.1")
	server := func(mutual bool) *tls.Config {
		c := &tls.Config{Certificates: []tls.Certificate{pair.TLS}}
		if mutual {
			c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool
		}
		return c
	}
	trust := config.TLS{CAFile: ca.File}
	full := config.TLS{CAFile: ca.File, CertFile: pair.CertFile, KeyFile: pair.KeyFile}
	for _, test := range []struct {
		name   string
		server *tls.Config
		client config.TLS
		want   string // in the error; empty for success
	}{
		{"trusted", server(false), trust, ""},
		{"mutual", server(true), full, ""},
		{"another CA", server(false), config.TLS{CAFile: other.File}, "check kafka.tls.caFile"},
		{"another name", server(false), config.TLS{CAFile: ca.File, ServerName: "kafka-0"}, "kafka-0"},
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

// What listens on a port may be anything. Taken for an answer of a broker, each of these says that
// it lists millions of things, for which kafka-go would make room.
func TestNotKafka(t *testing.T) {
	ca := testcert.NewCA(t)
	secure := &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, "127.0.0.1").TLS}}
	for name, greeting := range map[string]string{
		"SSH":    "SSH-2.0-OpenSSH_9.2\r\n",
		"HTTP":   "HTTP/1.1 400 Bad Request\r\n\r\n",
		"page":   "<html>\r\n<head><title>400 Bad Request</title></head>\r\n",
		"gRPC":   "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00",
		"short":  "+OK\r\n",
		"counts": "\x00\x00\x00\x0e\x00\x00\x00\x01\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00",
		"length": "\xff\xff\xff\xff\x00\x00\x00\x01\x00\x00\x00\x00",
	} {
		want := "not a Kafka broker"
		if slices.Contains([]string{"HTTP", "page", "gRPC"}, name) {
			want = "this port speaks HTTP, not Kafka"
		}
		t.Run(name, func(t *testing.T) {
			s := openSink(t, []string{answering(t, []byte(greeting))})
			sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, want, "check kafka.brokers")
		})
		t.Run(name+" over TLS", func(t *testing.T) {
			address := answeringOn(t, func(l net.Listener) net.Listener { return tls.NewListener(l, secure) }, []byte(greeting))
			s := openSink(t, []string{address}, withTLS(config.TLS{CAFile: ca.File}))
			sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, want, "check kafka.brokers")
		})
	}
}

// answering listens, reads the beginning of what a client says, answers and
// hangs up.
func answering(t *testing.T, answer []byte) string {
	t.Helper()
	return answeringOn(t, func(l net.Listener) net.Listener { return l }, answer)
}

// answeringOn is answering on what wrap makes of a listener.
func answeringOn(t *testing.T, wrap func(net.Listener) net.Listener, answer []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = wrap(l)
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
	ca, other := testcert.NewCA(t), testcert.NewCA(t)
	b := startBrokers(t, 1, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{ca.Issue(t, "127.0.0.1").TLS}}))
	s := openSink(t, b.ListenAddrs(), withTLS(config.TLS{CAFile: other.File}))
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, "caFile")
	if err := os.Remove(other.File); err != nil {
		t.Fatal(err)
	}
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, other.File)
	if err := os.Rename(ca.File, other.File); err != nil {
		t.Fatal(err)
	}
	// Two files of one size made within a tick of the clock would look the same.
	if err := os.Chtimes(other.File, time.Now(), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	send(t, s, batch(1, `{"a":1}`))
	send(t, s, batch(2, `{"a":2}`))
}
