package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// checkTimeout bounds one check, whatever the probe's own time-out is.
const checkTimeout = 5 * time.Second

// Check is one thing without which a server is not ready.
type Check struct {
	Name string
	// Ready returns nil when the thing is there. Calls may overlap. It must return
	// promptly once the context is done.
	Ready func(context.Context) error
}

// readiness returns a readiness check. It fails as soon as stopping is done, and as long as
// one of the checks fails. The checks are asked at the same time, on each call. The error
// names every check that failed.
func readiness(stopping context.Context, checks ...Check) func(*http.Request) error {
	return func(r *http.Request) error {
		if stopping.Err() != nil {
			return errors.New("the server is stopping")
		}
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		failures := make([]error, len(checks))
		var all sync.WaitGroup
		for i, check := range checks {
			all.Go(func() {
				if err := check.Ready(ctx); err != nil {
					failures[i] = fmt.Errorf("%s: %w", check.Name, err)
				}
			})
		}
		all.Wait()
		return errors.Join(failures...)
	}
}

// ownHandshake checks that the own listener at address completes a TLS handshake, and that
// it presents the certificate in use, which must be valid.
func ownHandshake(address string, c *certificates) Check {
	return Check{Name: "TLS handshake with " + address, Ready: func(ctx context.Context) error {
		before, err := c.getCertificate(nil)
		if err == nil {
			err = validNow(before)
		}
		if err != nil {
			return err
		}
		presented, err := handshake(ctx, address)
		if err != nil {
			return err
		}
		after, err := c.getCertificate(nil)
		if err != nil {
			return err
		}
		if !presented.Equal(before.Leaf) && !presented.Equal(after.Leaf) {
			return fmt.Errorf("the listener presents the certificate with serial %s, not the one in use with serial %s", presented.SerialNumber, after.Leaf.SerialNumber)
		}
		return nil
	}}
}

// handshake returns the certificate that the listener at address presents, for the caller to
// compare: nothing else of it is verified.
func handshake(ctx context.Context, address string) (*x509.Certificate, error) {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}
