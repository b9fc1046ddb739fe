package httpsink

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
)

// net/http reads the environment once in the life of a process, so each case
// runs in a process of its own: this one, started again with these variables.
const childURL = "DOCKET_TEST_URL"

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
		want        []string
	}{
		"used":         {"http://" + nowhere, []string{"HTTP_PROXY=" + through}, []string{"accepted"}},
		"not for host": {"http://" + nowhere, []string{"HTTP_PROXY=" + through, "NO_PROXY=.example.com"}, []string{"Transient", "check the host in http.url"}},
		"refused":      {"http://" + nowhere, []string{"HTTP_PROXY=http://docket:s3cret@" + refusing(t)}, []string{"Transient", "check the proxy in HTTPS_PROXY and HTTP_PROXY"}},
	} {
		t.Run(name, func(t *testing.T) {
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
