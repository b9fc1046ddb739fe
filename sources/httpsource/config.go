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

// Rules are those of the sections that have the keys address, tls and maxConnections.
func Rules() []config.Rule {
	return []config.Rule{
		config.Required("address", "is required: host:port to listen on, such as 127.0.0.1:8282"),
		config.Text("address", config.HostPort, config.HostPortShape),
		config.Text("address", checkPort, config.PortShape),
		config.Text("address", checkLoopback, config.LoopbackShape).When(config.Set("tls").Not()),
		config.AtLeast("maxConnections", 1),
	}
}

func checkPort(address string) error {
	if _, port, _ := net.SplitHostPort(address); strings.Trim(port, "0") == "" {
		return errors.New("must have a port other than 0, or no client could know it")
	}
	return nil
}

func checkLoopback(address string) error {
	if !config.Loopback(address) {
		return errors.New("must be a loopback address such as 127.0.0.1:8282, or have tls beside it: others can read and send on a network")
	}
	return nil
}
