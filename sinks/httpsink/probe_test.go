package httpsink

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/sinks"
)

func probe(t *testing.T, url string, change ...func(*Config)) error {
	t.Helper()
	c := defaultConfig()
	c.URL = url
	for _, f := range change {
		f(c)
	}
	if err := c.Validate().Err(); err != nil {
		t.Fatalf("Validate = %v, want nothing wrong", err)
	}
	return c.Probe(t.Context(), sinks.Env{Name: "siem"})
}

func TestProbeReaches(t *testing.T) {
	for name, test := range map[string]struct {
		encoding string
		code     int
		text     string
	}{
		"2xx":                {"ndjson", 204, ""},
		"empty body refused": {"jsonArray", 400, "unexpected end of JSON"},
		"unprocessable":      {"cloudEvents", 422, ""},
		"otlp":               {"otlp", 400, ""},
		"Splunk":             {"splunkHEC", 400, `{"text":"No data","code":5}`},
		"Elasticsearch": {"elasticsearchBulk", 400,
			`{"error":{"root_cause":[{"type":"parse_exception","reason":"request body is required"}],"type":"parse_exception","reason":"request body is required"},"status":400}`},
		"Loki": {"loki", 400, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, (*httptest.Server).Start)
			r.setAnswer(status(test.code, test.text))
			err := probe(t, r.URL+"/ingest", func(c *Config) {
				c.Encoding, c.Compression, c.BearerTokenFile = test.encoding, compressGzip, secretFile(t, "s3cret")
			})
			if err != nil {
				t.Errorf("Probe = %v, want nil", err)
			}
			req := r.lastRequest(t)
			if req.Method != "POST" || req.ContentLength != 0 || req.Header.Get("Docket-Records") != "0" || req.Header.Get("Content-Encoding") != "" {
				t.Errorf("asked with %s of %d bytes, %v, want a POST without a body and without records", req.Method, req.ContentLength, req.Header)
			}
			if !strings.HasSuffix(req.Header.Get("Authorization"), " s3cret") || req.Header.Get("Content-Type") == "" {
				t.Errorf("asked with %v, want all that a delivery has", req.Header)
			}
		})
	}
}

func TestProbeRefused(t *testing.T) {
	for name, test := range map[string]struct {
		encoding string
		answer   http.HandlerFunc
		kind     sinks.Kind
		want     string
	}{
		"401":             {"ndjson", status(401, ""), sinks.Misconfigured, "replace the credential in http.bearerTokenFile"},
		"403":             {"ndjson", status(403, ""), sinks.Misconfigured, "replace the credential in http.bearerTokenFile"},
		"404":             {"ndjson", status(404, ""), sinks.Misconfigured, "check http.url"},
		"413":             {"ndjson", status(413, ""), sinks.Rejected, "answered 413"},
		"415":             {"ndjson", status(415, ""), sinks.Misconfigured, "must accept application/x-ndjson with Content-Encoding gzip"},
		"redirect":        {"ndjson", status(302, "", "Location", "https://sso.example.com/login"), sinks.Misconfigured, "redirects to https://sso.example.com"},
		"429":             {"ndjson", status(429, "", "Retry-After", "3"), sinks.Throttled, "answered 429"},
		"503":             {"ndjson", status(503, ""), sinks.Transient, "answered 503"},
		"https port":      {"ndjson", status(400, "Client sent an HTTP request to an HTTPS server."), sinks.Misconfigured, "use https://"},
		"Splunk token":    {"splunkHEC", status(403, `{"text":"Invalid token","code":4}`), sinks.Misconfigured, "Invalid token"},
		"no bulk url":     {"elasticsearchBulk", status(400, `{"error":"no handler found for uri [/x]"}`), sinks.Misconfigured, "/_bulk"},
		"no Loki tenant":  {"loki", status(401, "no org id"), sinks.Misconfigured, "X-Scope-OrgID"},
		"no answer":       {"ndjson", cut, sinks.Transient, "closed before an answer came"},
		"gateway timeout": {"otlp", status(504, ""), sinks.Transient, "answered 504"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, (*httptest.Server).Start)
			r.setAnswer(test.answer)
			err := probe(t, r.URL, func(c *Config) {
				c.Encoding, c.Compression, c.BearerTokenFile = test.encoding, compressGzip, secretFile(t, "s3cret")
			})
			wantProbe(t, err, test.kind, test.want)
		})
	}
}

func wantProbe(t *testing.T, err error, kind sinks.Kind, text string) {
	t.Helper()
	if err == nil {
		t.Fatalf("Probe = nil, want a failure of kind %v", kind)
	}
	if f := sinks.FailureOf(err); f.Kind != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("Probe failed as %v (%v), want %v with %q", f.Kind, err, kind, text)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Probe gives a secret away: %q", err)
	}
}

func TestProbeOfTheWay(t *testing.T) {
	t.Parallel()
	ca, other := testcert.NewCA(t), testcert.NewCA(t)
	pair := ca.Issue(t, "127.0.0.1")
	trust := config.TLS{CAFile: ca.File}
	hole := blackHole(t)
	for name, test := range map[string]struct {
		url    string
		change func(*Config)
		kind   sinks.Kind
		want   string
	}{
		"no such name": {"https://" + strings.Repeat("a", 64) + ".example.com", nil, sinks.Transient, "check the host in http.url"},
		"refused":      {"http://" + refusing(t), nil, sinks.Transient, "nothing listens there: check host and port in http.url"},
		"black hole":   {"http://" + hole, withTimeout(300 * time.Millisecond), sinks.Transient, "no connection within 300ms: check host and port in http.url, and whether a firewall"},
		"expired":      {expiredReceiver(t, ca).URL, withTLS(trust), sinks.Misconfigured, "renew the server's certificate"},
		"name":         {tlsReceiver(t, ca, false).URL, withTLS(config.TLS{CAFile: ca.File, ServerName: "siem.example.com"}), sinks.Misconfigured, "set http.tls.serverName to a name that the certificate has"},
		"unknown CA":   {tlsReceiver(t, ca, false).URL, withTLS(config.TLS{CAFile: other.File}), sinks.Misconfigured, "check http.tls.caFile: it must hold the CA"},
		"missing CA":   {"https://127.0.0.1:1", withTLS(config.TLS{CAFile: "/nowhere/ca.pem"}), sinks.Misconfigured, "ca file /nowhere/ca.pem"},
		"missing key":  {"https://127.0.0.1:1", withTLS(config.TLS{CAFile: ca.File, CertFile: pair.CertFile, KeyFile: "/nowhere/key"}), sinks.Misconfigured, "key file /nowhere/key"},
		"token file":   {"http://127.0.0.1:1", func(c *Config) { c.BearerTokenFile = "/nowhere/token" }, sinks.Misconfigured, "secret file /nowhere/token"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.change == nil {
				test.change = func(*Config) {}
			}
			wantProbe(t, probe(t, test.url, test.change), test.kind, test.want)
		})
	}
}

// bound returns a socket, and its address, at which nobody listens.
func bound(t *testing.T) (fd int, address string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
}

// refusing returns an address that refuses connections, and that nobody else gets.
func refusing(t *testing.T) string {
	t.Helper()
	_, address := bound(t)
	return address
}

// blackHole returns the address of a socket that answers nobody: it keeps one
// connection waiting, that one is there, and the kernel drops who comes next.
func blackHole(t *testing.T) string {
	t.Helper()
	fd, address := bound(t)
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	await.Until(t, "more connections to wait than may", func() bool {
		// Of a socket that listens these are how many wait, and how many may.
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		return info.Unacked > info.Sacked
	})
	return address
}
