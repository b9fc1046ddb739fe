package httpsink

import (
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// peer is a server that is talked to.
type peer struct {
	url     *url.URL
	urlKey  string        // where the configuration says it: "http.url"
	tlsKey  string        // and how to speak TLS: "http.tls"
	action  string        // what is done there, for errors: "post to"
	tls     *config.TLS   // nil for the system's roots and no certificate
	timeout time.Duration // of an attempt, for errors
}

// connection is the way to a peer: the client with its pool of connections. Its
// methods may be called at the same time.
type connection struct {
	peer

	mu        sync.Mutex
	client    *http.Client // guarded by mu
	caVersion string       // guarded by mu; of the CAs that client trusts
	until     time.Time    // guarded by mu; client is used until then
}

// newConnection reads the TLS files and connects to nothing yet.
func newConnection(p peer) (*connection, error) {
	c := &connection{peer: p}
	if err := c.connect(); err != nil {
		return nil, err
	}
	return c, nil
}

// connect makes a new client, and with it trusts the CAs that are in the file
// now. c.mu is held, or nobody else knows of c.
func (c *connection) connect() error {
	var version string
	if c.tls != nil {
		version = c.tls.CAVersion()
	}
	transport, err := newTransport(c.tls, c.tlsKey)
	if err != nil {
		return err
	}
	if c.client != nil {
		c.client.CloseIdleConnections()
	}
	c.client = &http.Client{Transport: wholeRequests{transport}, CheckRedirect: stayOnServer}
	c.caVersion, c.until = version, sinks.ConnectionsUntil()
	return nil
}

// renewed returns the client, a new one when the CA file has changed or the connections
// are old. Requests under way on those of the client before are answered there: net/http closes
// such a connection after the answer.
func (c *connection) renewed() (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) && (c.tls == nil || c.tls.CAVersion() == c.caVersion) {
		return c.client, nil
	}
	if err := c.connect(); err != nil {
		return nil, sinks.Failf(sinks.Misconfigured, "make new connections: %s: %w", c.tlsKey, err)
	}
	return c.client, nil
}

// close closes the connections; no request is under way.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.client.CloseIdleConnections()
}
