package kubetest

import (
	"crypto/tls"
	"net/http"
)

// Client returns an HTTP client of the administrator, for loads that a kubectl for each
// request would be too slow for. It keeps as many connections as it has requests at a
// time.
func (c *Cluster) Client() *http.Client {
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: c.ca.Pool},
		MaxIdleConnsPerHost: 64,
	}
	c.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: administrator{transport}}
}

// administrator adds the administrator's token to each request.
type administrator struct{ next http.RoundTripper }

func (a administrator) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return a.next.RoundTrip(r)
}
