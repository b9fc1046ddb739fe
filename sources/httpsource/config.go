package httpsource

import (
	"errors"
	"net"
	"strings"

	"github.com/docket-export/docket/config"
)

// DefaultConnections is how many connections such a source serves unless configured.
// What they cost, and what their bodies do, is MemoryBytes.
const DefaultConnections = 128

// Config is what the sections of such sources have in common. A kind has each field as
// a key of its own section.
type Config struct {
	// Address to listen on, host:port. Without a host: every address there is.
	Address string
	// BearerTokenFile holds the token that clients must send; empty: they send none.
	BearerTokenFile config.SecretFile
	// TLS is required unless only this machine can reach the address.
	TLS *config.ServerTLS
	// MaxConnections bounds the clients that are connected at a time.
	MaxConnections int
}

// Validate reports an address that is none or needs TLS, and files of TLS that are not
// named. The paths are those keys: address, tls.certFile, maxConnections. Nothing is
// resolved or opened.
func (c Config) Validate() config.Problems {
	var p config.Problems
	if c.Address == "" {
		p.Addf("address", "is required: host:port to listen on, such as 127.0.0.1:8282")
	} else {
		p.Check("address", checkAddress(c.Address, c.TLS != nil))
	}
	if c.TLS != nil {
		p = append(p, c.TLS.Validate().In("tls")...)
	}
	if c.MaxConnections < 1 {
		p.Addf("maxConnections", "must be at least 1")
	}
	return p
}

func checkAddress(address string, secure bool) error {
	if err := config.HostPort(address); err != nil {
		return err
	}
	if _, port, _ := net.SplitHostPort(address); strings.Trim(port, "0") == "" {
		return errors.New("must have a port other than 0, or no client could know it")
	}
	if !secure && !config.Loopback(address) {
		return errors.New("must be a loopback address such as 127.0.0.1:8282, or have tls beside it: others can read and send on a network")
	}
	return nil
}
