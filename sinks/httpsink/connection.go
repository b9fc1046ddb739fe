package httpsink

import (
	"net/http"
	"net/url"
	"sync/atomic"
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

// connection is the way to a peer. Its methods may be called at the same time.
type connection struct {
	peer
	pool atomic.Pointer[pool]
}

// pool is a client with its connections.
type pool struct {
	*http.Client
	caVersion string    // of the CAs that it trusts
	until     time.Time // it is used until then
}

// newConnection reads the TLS files and connects to nothing yet.
func newConnection(p peer) (*connection, error) {
	c := &connection{peer: p}
	fresh, err := c.newPool(c.caVersion())
	if err != nil {
		return nil, err
	}
	c.pool.Store(fresh)
	return c, nil
}

func (c *connection) caVersion() string {
	if c.tls == nil {
		return ""
	}
	return c.tls.CAVersion()
}

func (c *connection) newPool(caVersion string) (*pool, error) {
	transport, err := newTransport(c.tls, c.tlsKey)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: wholeRequests{transport}, CheckRedirect: stayOnServer}
	return &pool{client, caVersion, sinks.ConnectionsUntil()}, nil
}

// client returns the client, a new one when the CA file has changed or the connections
// are old. Requests under way on those of the client before are answered there: net/http closes
// such a connection after the answer.
func (c *connection) client() (*http.Client, error) {
	current, version := c.pool.Load(), c.caVersion()
	if time.Now().Before(current.until) && version == current.caVersion {
		return current.Client, nil
	}
	fresh, err := c.newPool(version)
	if err != nil {
		return nil, sinks.Failf(sinks.Misconfigured, "make new connections: %s: %w", c.tlsKey, err)
	}
	if !c.pool.CompareAndSwap(current, fresh) { // by another Send
		return c.pool.Load().Client, nil
	}
	current.CloseIdleConnections()
	return fresh.Client, nil
}

// close closes the connections; no request is under way.
func (c *connection) close() { c.pool.Load().CloseIdleConnections() }
