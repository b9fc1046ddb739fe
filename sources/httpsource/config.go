package httpsource

import (
	"errors"
	"net"
	"strings"

	"github.com/docket-export/docket/config"
)

// DefaultConnections is how many connections such a source serves by default.
// MemoryBytes says what the connections and their bodies cost.
const DefaultConnections = 128

// Config is what the sections of such sources have in common. A kind has each field as
// a key of its own section.
type Config struct {
	// Address to listen on, host:port. Without a host: every address of the machine.
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
		return errors.New("must have a port other than 0: clients must know the port")
	}
	return nil
}

func checkLoopback(address string) error {
	if !config.Loopback(address) {
		return errors.New("must be a loopback address such as 127.0.0.1:8282, unless tls is set: on a network, others can read and send records")
	}
	return nil
}
