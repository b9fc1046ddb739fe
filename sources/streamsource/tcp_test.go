package streamsource

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/sources"
)

func TestTCPConfig(t *testing.T) {
	t.Parallel()
	files := &config.ServerTLS{CertFile: "/crt", KeyFile: "/key"}
	const notLoopback = "address: must be a loopback address such as 127.0.0.1:7443, unless tls is set"
	for name, test := range map[string]struct {
		config TCPConfig
		want   string // how the problems begin
	}{
		"loopback":             {TCPConfig{Address: "127.0.0.1:7443"}, ""},
		"IPv6 loopback":        {TCPConfig{Address: "[::1]:7443"}, ""},
		"localhost":            {TCPConfig{Address: "localhost:7443"}, ""},
		"TLS everywhere":       {TCPConfig{Address: ":7443", TLS: files}, ""},
		"TLS by name":          {TCPConfig{Address: "docket.example.com:7443", TLS: files}, ""},
		"nothing":              {TCPConfig{}, "address: is required: host:port to listen on, such as 127.0.0.1:7443"},
		"no port":              {TCPConfig{Address: "127.0.0.1"}, "address: must be host:port"},
		"port 0":               {TCPConfig{Address: "127.0.0.1:0"}, "address: must have a port other than 0"},
		"port 00":              {TCPConfig{Address: "127.0.0.1:00"}, "address: must have a port other than 0"},
		"no port after colon":  {TCPConfig{Address: "127.0.0.1:"}, "address: must end in a port"},
		"plain everywhere":     {TCPConfig{Address: ":7443"}, notLoopback},
		"plain on an address":  {TCPConfig{Address: "10.0.0.1:7443"}, notLoopback},
		"plain by name":        {TCPConfig{Address: "docket.example.com:7443"}, notLoopback},
		"plain on no loopback": {TCPConfig{Address: "127.0.0.1.example.com:7443"}, notLoopback},
		"TLS without files": {TCPConfig{Address: ":7443", TLS: &config.ServerTLS{}},
			"tls.certFile: is required: the server's certificate and its chain, in PEM form\ntls.keyFile: is required: the key"},
	} {
		t.Run(name, func(t *testing.T) {
			test.config.MaxConnections = 1
			got := test.config.Validate().Error()
			if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
				t.Errorf("problems: got %q, want %q", got, test.want)
			}
		})
	}
	c := TCPDefinition.NewConfig().(*TCPConfig)
	if c.MaxConnections != 256 || c.TLS != nil || TCPDefinition.ConfigKey() != "tcp" {
		t.Errorf("definition: got key %q, %+v, want tcp, 256, no TLS", TCPDefinition.ConfigKey(), c)
	}
	c.Address, c.MaxConnections = "127.0.0.1:7443", 0
	if got, want := c.Validate().Error(), "maxConnections: must be at least 1"; got != want {
		t.Errorf("problems: got %q, want %q", got, want)
	}
}

// startTCP runs a source at a free port of a loopback address.
func startTCP(t *testing.T, change ...func(*TCPConfig)) *running {
	t.Helper()
	c := TCPDefinition.NewConfig().(*TCPConfig)
	c.Address = "127.0.0.1:0"
	for _, f := range change {
		f(c)
	}
	return startSource(t, testLimit, c)
}

// secure is a source with TLS, and what its producers need.
type secure struct {
	*running
	files  config.ServerTLS
	ca     testcert.CA
	client *tls.Config
}

// startTLS runs a source that asks for client certificates if mutual is true.
func startTLS(t *testing.T, mutual bool, change ...func(*TCPConfig)) *secure {
	t.Helper()
	ca := testcert.NewCA(t)
	server := ca.Issue(t, "localhost")
	s := &secure{ca: ca, client: &tls.Config{RootCAs: ca.Pool, ServerName: "localhost"}}
	s.files = config.ServerTLS{CertFile: server.CertFile, KeyFile: server.KeyFile}
	if mutual {
		s.files.ClientCAFile = ca.File
		s.client.Certificates = []tls.Certificate{ca.Issue(t, "webhook-0").TLS}
	}
	set := func(c *TCPConfig) { c.TLS = &s.files }
	s.running = startTCP(t, append([]func(*TCPConfig){set}, change...)...)
	return s
}

// try connects with TLS as c says.
func (s *secure) try(c *tls.Config) (*tls.Conn, error) {
	return tls.DialWithDialer(dialer(), "tcp", s.at.String(), c)
}

// dialer makes connections whose receive buffer is small: answers soon pile up in
// the exporter's, as they do far away.
func dialer() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
}

func (s *secure) dial() *peer {
	s.t.Helper()
	nc, err := s.try(s.client)
	if err != nil {
		s.t.Fatal(err)
	}
	return newPeer(s.t, nc)
}

// transports are the ways to reach a source: what holds on a Unix socket holds on
// all of them.
func transports(t *testing.T, test func(t *testing.T, r *running, dial func() *peer)) {
	t.Run("unix", func(t *testing.T) { t.Parallel(); r := start(t, testLimit); test(t, r, r.dial) })
	t.Run("tcp", func(t *testing.T) { t.Parallel(); r := startTCP(t); test(t, r, r.dial) })
	t.Run("tls", func(t *testing.T) { t.Parallel(); s := startTLS(t, false); test(t, s.running, s.dial) })
	t.Run("mutual tls", func(t *testing.T) { t.Parallel(); s := startTLS(t, true); test(t, s.running, s.dial) })
}

func TestTransportsCarryLines(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, r *running, dial func() *peer) {
		p := dial()
		p.hello("p", 1, 0)
		p.send("{\"a\":1}\nbad\n{\"a\":3}\n")
		p.expectRefused(2)
		p.expectAck(3)
		plain := dial()
		plain.send("{\"a\":4}\n{\"a\":5}")
		r.awaitTexts(`1 {"a":1}`, `2 InvalidJSON bad`, `3 {"a":3}`, `{"a":4}`)
		plain.closeWrite()
		plain.expectEnd()
		r.awaitTexts(`1 {"a":1}`, `2 InvalidJSON bad`, `3 {"a":3}`, `{"a":4}`, `{"a":5}`)
	})
}

// The acks owed come after the producer has closed its side: with TLS that is a
// close_notify, and the answer to it another after the acks.
func TestTransportsHalfClose(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, r *running, dial func() *peer) {
		r.Hold()
		p := dial()
		p.hello("p", 1, 0)
		p.send("{\"a\":1}\n{\"a\":2}\n{\"a\":")
		p.closeWrite()
		r.await("2 pending lines", func() bool { return r.Pending() == 2 })
		r.Settle(1)
		p.expect(`{"ack":1}`)
		r.Release()
		p.expect(`{"ack":2}`)
		if rest, err := io.ReadAll(p.in); len(rest) > 0 || err != nil {
			t.Errorf("at the end: got %q, %v, want a clean end", rest, err)
		}
	})
}

func TestTransportsStop(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, r *running, dial func() *peer) {
		r.Hold()
		p := dial()
		p.hello("p", 1, 0)
		p.send("{\"a\":1}\n")
		plain := dial()
		plain.send("{\"a\":2}\n{\"last\":1}")
		r.await("2 pending lines", func() bool { return r.Pending() == 2 })
		r.stopIsQuick()
		r.stop()
		r.Release()
		p.expectAck(1)
		p.expectClosing("the exporter is stopping")
		r.stopAndWait()
		if got := len(r.Lines()); got != 3 {
			t.Errorf("lines after the stop: got %d, want 3", got)
		}
	})
}

// A producer hears what became of its lines and why its connection ends although
// it sends on, and reads slowly: closing a TCP connection with unread bytes would
// throw away what is on its way.
func TestTransportsLastWord(t *testing.T) {
	t.Parallel()
	const lines = 3000
	transports(t, func(t *testing.T, r *running, dial func() *peer) {
		r.source.server.Load().farewellWait = await.Left(t) // so slowly does it read
		for i := range 5 {
			p := dial()
			p.hello(fmt.Sprint("p", i), 1, 0)
			hello := fmt.Sprintf(`{"docket":{"version":1,"producer":"p%d","next":1}}`+"\n", i)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				text := strings.Repeat("bad\n", lines) + hello
				for range 100 {
					if _, err := io.WriteString(p, text); err != nil {
						return
					}
					text = strings.Repeat("{}\n", 10000)
				}
			}()
			r.await("all lines settled", func() bool { return len(r.Lines()) >= (i+1)*lines })
			for n := range lines {
				p.expectRefused(n + 1)
			}
			p.expectAck(lines)
			p.expectClosing("a connection has only one")
			p.Close()
			<-sent
		}
		r.awaitConnections(0)
		if n := r.source.server.Load().memory.InUse(); n != 0 {
			t.Errorf("memory of connections that have ended: got %d bytes, want none", n)
		}
	})
}

func TestTransportsLimit(t *testing.T) {
	t.Parallel()
	limit := func(c *TCPConfig) { c.MaxConnections = 2 }
	full := func(t *testing.T, r *running, dial func() *peer) {
		first, second := dial(), dial()
		first.hello("p", 1, 0)
		second.hello("q", 1, 0)
		for range 20 {
			dial().expectClosing("too many connections: at most 2 at a time")
		}
		r.awaitLog(1, "too many connections: at most 2 at a time")
		first.closeWrite()
		first.expectEnd()
		r.awaitConnections(1)
		third := dial()
		third.hello("r", 1, 0)
	}
	t.Run("unix", func(t *testing.T) {
		r := start(t, testLimit, func(c *UnixConfig) { c.MaxConnections = 2 })
		full(t, r, r.dial)
	})
	t.Run("tcp", func(t *testing.T) { r := startTCP(t, limit); full(t, r, r.dial) })
	t.Run("tls", func(t *testing.T) {
		s := startTLS(t, true, limit)
		full(t, s.running, s.dial)
	})
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	s := startTLS(t, true)
	other := testcert.NewCA(t)
	show := func(pair testcert.Pair) *tls.Config {
		c := s.client.Clone()
		c.Certificates = nil
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair.TLS, nil }
		return c
	}
	distrust := s.client.Clone()
	distrust.RootCAs = other.Pool
	none := s.client.Clone()
	none.Certificates = nil
	for name, test := range map[string]struct {
		client *tls.Config
		want   string // in the log
	}{
		"none":           {none, "tls handshake: tls: client didn't provide a certificate"},
		"of another CA":  {show(other.Issue(t, "mallory")), "tls handshake: tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		"expired":        {show(s.ca.IssueExpired(t, "webhook-0")), "tls handshake: tls: failed to verify certificate: x509: certificate has expired or is not yet valid\" "},
		"distrusts ours": {distrust, "tls handshake: remote error: tls: "},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				nc, err := s.try(test.client)
				if err == nil { // with TLS 1.3 the client's part is done before it is refused
					_ = nc.SetDeadline(time.Now().Add(await.Left(t)))
					_, err = nc.Read(make([]byte, 1))
					nc.Close()
				}
				if err == nil {
					t.Fatal("got a connection, want none")
				}
			}
			s.awaitConnections(0)
			s.awaitLog(1, test.want) // of three
		})
	}
	p := s.dial()
	p.hello("p", 1, 0)
	s.awaitConnections(1)
}

// A certificate that is rotated is in use from the next connection on; those there
// are stay.
func TestServerCertificateRotates(t *testing.T) {
	t.Parallel()
	s := startTLS(t, false)
	before := s.dial()
	before.hello("p", 1, 0)

	next := testcert.NewCA(t)
	pair := next.Issue(t, "localhost")
	if err := os.Rename(pair.CertFile, s.files.CertFile); err != nil {
		t.Fatal(err)
	}
	if nc, err := s.try(s.client); err == nil {
		nc.Close()
		t.Error("between the two files: got a connection, want none")
	}
	s.awaitLog(1, "tls handshake: certificate file "+s.files.CertFile+" with key file "+s.files.KeyFile)
	if err := os.Rename(pair.KeyFile, s.files.KeyFile); err != nil {
		t.Fatal(err)
	}
	if nc, err := s.try(s.client); err == nil {
		nc.Close()
		t.Error("after both: the old CA is still good, want a certificate of the new one")
	}
	s.client.RootCAs = next.Pool
	after := s.dial()
	after.hello("q", 1, 0)
	before.send("{}\n")
	before.expectAck(1)
}

// Who sends plain text to a port with TLS is told so in plain text.
func TestPlainTextToTLS(t *testing.T) {
	t.Parallel()
	s := startTLS(t, false)
	for _, text := range []string{`{"docket":{"version":1,"producer":"p","next":1}}` + "\n", "{\"a\":1}\n", "GET / HTTP/1.1\r\n\r\n"} {
		nc, err := net.Dial("tcp", s.at.String())
		if err != nil {
			t.Fatal(err)
		}
		p := newPeer(t, nc.(halfConn))
		p.send(text)
		p.expectClosing("the producer does not speak TLS, which this port requires")
	}
	s.awaitConnections(0)
	s.awaitLog(1, "tls handshake: the producer does not speak TLS")
	s.awaitTexts()
}

// A health check, or somebody who looks for open ports, is no news.
func TestConnectionsWithoutAByte(t *testing.T) {
	t.Parallel()
	s := startTLS(t, true)
	for i := range 50 {
		nc, err := net.Dial("tcp", s.at.String())
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 { // closed with a reset
			if err := nc.(*net.TCPConn).SetLinger(0); err != nil {
				t.Fatal(err)
			}
		}
		nc.Close()
	}
	p := s.dial() // which was accepted after them
	p.hello("p", 1, 0)
	s.awaitConnections(1)
	if got := s.log.String(); got != "" {
		t.Errorf("log: got\n%s\nwant nothing", got)
	}
}

// A peer that is silent, or stops in the middle of the handshake, holds up nobody
// and gives its place back.
func TestHandshakeThatIsNotFinished(t *testing.T) {
	t.Parallel()
	files := testcert.NewCA(t).Issue(t, "localhost")
	c := &TCPConfig{Address: "127.0.0.1:0", MaxConnections: 100, TLS: &config.ServerTLS{CertFile: files.CertFile, KeyFile: files.KeyFile}}
	const wait = 5 * time.Second // in which the one that does not stop has to be done
	r := startSource(t, testLimit, &shortHandshake{c, wait})
	began := time.Now()
	for i := range 50 {
		nc, err := net.Dial("tcp", r.at.String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if i%2 == 0 {
			if _, err := nc.Write([]byte{22, 3, 1, 2, 0, 1}); err != nil { // the beginning of a ClientHello
				t.Fatal(err)
			}
		}
	}
	nc, err := tls.Dial("tcp", r.at.String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, nc)
	p.hello("p", 1, 0)
	r.awaitConnections(1)
	if took := time.Since(began); took < wait {
		t.Errorf("the others ended after %v, want %v", took, wait)
	}
	r.awaitLog(1, "tls handshake: not finished within 5s")
	p.send("{}\n")
	p.expectAck(1)
}

// shortHandshake is a source with another limit of the handshake.
type shortHandshake struct {
	*TCPConfig
	wait time.Duration
}

func (c *shortHandshake) New(env sources.Env) sources.Source {
	s := c.TCPConfig.New(env).(*source)
	listen := s.listen
	s.listen = func(ctx context.Context) (listener, gate, error) {
		ln, g, err := listen(ctx)
		g.handshakeWait = c.wait
		return ln, g, err
	}
	return s
}

// A stop does not wait for handshakes.
func TestStopDuringHandshake(t *testing.T) {
	t.Parallel()
	s := startTLS(t, false)
	nc, err := net.Dial("tcp", s.at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	s.awaitConnections(1)
	s.stopIsQuick()
	s.stopAndWait()
}

func TestTCPThatCannotStart(t *testing.T) {
	t.Parallel()
	taken := startTCP(t)
	for name, test := range map[string]struct {
		config TCPConfig
		want   string
	}{
		"taken":          {TCPConfig{Address: taken.at.String()}, "address already in use: stop the process that listens there or choose another address"},
		"not loopback":   {TCPConfig{Address: "0.0.0.0:0"}, "is not a loopback address: set tls, or listen on 127.0.0.1"},
		"no certificate": {TCPConfig{Address: "127.0.0.1:0", TLS: &config.ServerTLS{CertFile: "/gone", KeyFile: "/gone"}}, "tls: certificate file /gone: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.config.New(sources.Env{Name: "test", Log: slog.New(slog.DiscardHandler)})
			err := s.Run(context.Background(), nil, func() { t.Error("ready was called") })
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Run: got %v, want an error with %q", err, test.want)
			}
		})
	}
}
