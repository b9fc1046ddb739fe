// Package sinktls is what sinks that speak TLS have in common: a configuration
// whose failures say what they mean for the records, and advice on the errors of
// a handshake. Both name the section of the sink's configuration that an operator
// is to look at, such as "http.tls".
package sinktls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Client is t.Client with one difference: a certificate or key that has become
// unreadable fails the handshake as sinks.Misconfigured, because it does not
// recover by itself. The text of the failure begins with section. The error of
// Client is the unchanged error of t.Client.
func Client(t config.TLS, section string) (*tls.Config, error) {
	c, err := t.Client()
	if err != nil || c.GetClientCertificate == nil {
		return c, err
	}
	read := c.GetClientCertificate
	c.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := read(info)
		if err != nil {
			return nil, sinks.Failf(sinks.Misconfigured, "%s: %w", section, err)
		}
		return pair, nil
	}
	return c, nil
}

// Hint says what an operator must do about err, the error of a connection to
// peer ("server", "broker"). It is empty unless one side has refused the
// other's certificate: such an error stays until somebody acts.
func Hint(err error, section, peer string) string {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "renew the " + peer + "'s certificate, or set the clock of this machine"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "check " + section + ".caFile: it must hold the CA that signed the " + peer + "'s certificate"
	}
	// crypto/tls wraps whatever it has against a certificate in this type.
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "check " + section + ".caFile and " + section + ".serverName"
	}
	// It reports an alert of the peer this way and in no other.
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return "the " + peer + " refused the TLS handshake: check " + section + ".certFile and " + section + ".keyFile"
	}
	return ""
}
