package httpsource

import (
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
