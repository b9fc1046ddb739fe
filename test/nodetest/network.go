package nodetest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Dial connects from the network of the node: to the address of a pod or a Service.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var c net.Conn
	err := n.within(func() (err error) {
		c, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// Listen listens in the network of the node: pods reach n.Address.
func (n *Node) Listen(address string) (net.Listener, error) {
	var l net.Listener
	err := n.within(func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	return l, err
}

// within calls f in the network of the node: sockets that it makes stay there.
func (n *Node) within(f func() error) error {
	theirs, err := os.Open("/proc/" + n.first + "/ns/net")
	if err != nil {
		return err
	}
	defer theirs.Close()
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		ours, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			result <- err
			return // the thread ends with the goroutine
		}
		defer ours.Close()
		if err = unix.Setns(int(theirs.Fd()), unix.CLONE_NEWNET); err == nil {
			err = f()
			if unix.Setns(int(ours.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
		}
		result <- err
	}()
	return <-result
}

// Client returns an HTTP client in the network of the node, which is the administrator at the API
// server, https://127.0.0.1:6443, and trusts every server.
func (n *Node) Client(t testing.TB) *http.Client {
	transport := &http.Transport{
		DialContext:         n.Dial,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a test in a network of its own
		MaxIdleConnsPerHost: 64,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: administrator{transport}}
}

// administrator adds the administrator's token to requests to the API server.
type administrator struct{ next http.RoundTripper }

func (a administrator) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "127.0.0.1:6443" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", fmt.Sprintf("Bearer %s", adminToken))
	}
	return a.next.RoundTrip(r)
}
