package httpsink

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/sinks"
)

// net/http reads the environment once in the life of a process, so each case
// runs in a process of its own: this one, started again with these variables.
const (
	childURL = "DOCKET_TEST_URL"
	childCA  = "DOCKET_TEST_CA"
)

func TestMain(m *testing.M) {
	if os.Getenv(childURL) != "" {
		sendInChild()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// sendInChild sends one batch and prints what came of it.
func sendInChild() {
	c := defaultConfig()
	c.URL = os.Getenv(childURL)
	if ca := os.Getenv(childCA); ca != "" {
		c.TLS = &config.TLS{CAFile: ca}
	}
	s, err := c.Open(context.Background(), sinks.Env{})
	if err == nil {
		err = s.Send(context.Background(), batch(1, `{"a":1}`))
	}
	if err != nil {
		fmt.Println(sinks.FailureOf(err).Kind, err)
		return
	}
	fmt.Println("accepted")
}

// sendWith returns what sending to url comes to in that environment.
func sendWith(t *testing.T, url string, environment ...string) string {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = slices.Concat(environment, []string{childURL + "=" + url, "GORACE=atexit_sleep_ms=0"})
	output, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("sending in a process of its own: %v: %s", err, output)
	}
	if strings.Contains(string(output), "s3cret") {
		t.Errorf("a secret is given away: %s", output)
	}
	return strings.TrimSpace(string(output))
}

// nowhere is a host that has no address anywhere: a label has 63 bytes at most.
var nowhere = strings.Repeat("a", 64) + ".example.com"

func TestProxyFromEnvironment(t *testing.T) {
	proxy := newReceiver(t, (*httptest.Server).Start)
	through := strings.Replace(proxy.URL, "http://", "http://docket:s3cret@", 1)
	for name, test := range map[string]struct {
		url         string
		environment []string
		answer      http.HandlerFunc
		want        []string
	}{
		"used":           {"http://" + nowhere, []string{"HTTP_PROXY=" + through}, nil, []string{"accepted"}},
		"small letters":  {"http://" + nowhere, []string{"http_proxy=" + through}, nil, []string{"accepted"}},
		"not for https":  {"http://" + nowhere, []string{"HTTPS_PROXY=" + through}, nil, []string{"Transient", "check the host in http.url"}},
		"not for host":   {"http://" + nowhere, []string{"HTTP_PROXY=" + through, "NO_PROXY=.example.com"}, nil, []string{"Transient", "check the host in http.url"}},
		"unparsable":     {"http://" + nowhere, []string{"HTTP_PROXY=http://docket:s3cret%-@127.0.0.1"}, nil, []string{"Transient", "check the host in http.url"}}, // taken for none
		"refused":        {"http://" + nowhere, []string{"HTTP_PROXY=http://docket:s3cret@" + refusing(t)}, nil, []string{"Transient", "check the proxy in HTTPS_PROXY and HTTP_PROXY"}},
		"407":            {"http://" + nowhere, []string{"HTTP_PROXY=" + through}, status(407, ""), []string{"Misconfigured", "407", "check the proxy's credentials"}},
		"407 to CONNECT": {"https://siem.example.com", []string{"HTTPS_PROXY=" + through}, status(407, ""), []string{"Misconfigured", "proxy " + proxy.Listener.Addr().String() + " answered 407", "check the proxy's credentials"}},
		"502 to CONNECT": {"https://siem.example.com", []string{"HTTPS_PROXY=" + through}, status(502, ""), []string{"Transient", "Bad Gateway"}},
	} {
		t.Run(name, func(t *testing.T) {
			proxy.setAnswer(test.answer)
			got := sendWith(t, test.url, test.environment...)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want it to contain %q", got, want)
				}
			}
			if test.want[0] != "accepted" {
				return
			}
			req := proxy.lastRequest(t)
			if got, want := req.Header.Get("Proxy-Authorization"), "Basic ZG9ja2V0OnMzY3JldA=="; got != want || req.Host != nowhere {
				t.Errorf("the proxy was asked for %s with %q, want %s with %q", req.Host, got, nowhere, want)
			}
		})
	}
}

// TLS goes through a proxy to the receiver, who alone sees the batch.
func TestTunnel(t *testing.T) {
	ca := testcert.NewCA(t)
	r := newReceiver(t, func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.TLS = serverTLS(ca.Issue(t, "siem.example.com"))
		s.StartTLS()
	})
	done := make(chan struct{}) // closed when the child has gone
	proxy := newReceiver(t, (*httptest.Server).Start)
	proxy.setAnswer(func(w http.ResponseWriter, req *http.Request) {
		defer close(done)
		if req.Method != http.MethodConnect || req.Host != "siem.example.com:443" {
			t.Errorf("the proxy was asked to %s %s, want CONNECT siem.example.com:443", req.Method, req.Host)
		}
		server, err := net.Dial("tcp", r.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		client, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			server.Close()
			return
		}
		io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		var pipes sync.WaitGroup
		join := func(to, from net.Conn) {
			io.Copy(to, from) // until the child has gone
			to.Close()
		}
		pipes.Go(func() { join(server, client) })
		pipes.Go(func() { join(client, server) })
		pipes.Wait()
	})
	if got := sendWith(t, "https://siem.example.com/ingest", "HTTPS_PROXY="+proxy.URL, childCA+"="+ca.File); got != "accepted" {
		t.Errorf("got %q, want the batch to be accepted", got)
	}
	<-done
	if got := r.accepted(); len(got) != 1 {
		t.Errorf("the receiver holds %q, want one record", got)
	}
}
