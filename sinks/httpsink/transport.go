package httpsink

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktls"
)

// maxRedirects is how often a server may send a batch on within itself: to a
// path with a slash, to a shard. More is a loop.
const maxRedirects = 3

// An HTTP/2 connection is shared by all attempts, and one whose peer has gone
// without a word would fail them all for as long as the kernel sends again: a
// quarter of an hour. So a silent one is asked whether it lives. (HTTP/1 gives
// up a connection with the attempt that failed on it.)
const (
	pingAfter = 10 * time.Second
	pingWait  = 5 * time.Second
)

// newTransport returns a transport of its own, with the proxy that the
// environment names and HTTP/2 where the server speaks it. tlsKey is where the
// configuration has t.
func newTransport(t *config.TLS, tlsKey string) (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.OnProxyConnectResponse = checkProxy
	transport.MaxResponseHeaderBytes = maxAnswer
	transport.MaxIdleConnsPerHost = 1
	transport.HTTP2 = &http.HTTP2Config{
		SendPingTimeout: pingAfter, PingTimeout: pingWait,
		// Answers are short. Without these a server may send 4 MB of one before it is read.
		MaxReceiveBufferPerStream: maxAnswer, MaxReceiveBufferPerConnection: maxAnswer,
	}
	transport.DialContext = widely(transport.DialContext)
	transport.DisableCompression = true // readAnswer bounds what it decompresses
	if t != nil {
		tlsConfig, err := sinktls.Client(*t, tlsKey)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = tlsConfig
	}
	return transport, nil
}

// stayOnServer follows a redirect that keeps server, method and body (307 and
// 308). Any other becomes the answer: a batch and its token go nowhere but to
// the server that was configured.
func stayOnServer(next *http.Request, via []*http.Request) error {
	if next.Method != http.MethodPost || len(via) > maxRedirects || !sameOrigin(next.URL, via[0].URL) {
		return http.ErrUseLastResponse
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// checkProxy tells a proxy that wants credentials from one that has trouble;
// net/http makes the same nameless error of both.
func checkProxy(_ context.Context, proxy *url.URL, _ *http.Request, res *http.Response) error {
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired:
		return sinks.Failf(sinks.Misconfigured, "proxy %s answered %s: %s", proxy.Host, statusText(res.StatusCode), proxyHint)
	}
	return nil
}

const proxyHint = "check the proxy's credentials in HTTPS_PROXY and HTTP_PROXY and its permissions"
