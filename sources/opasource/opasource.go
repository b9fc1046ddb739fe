// Package opasource takes in the decision logs of the Open Policy Agent: it is the
// service that decision_logs of OPA upload to.
//
// A decision is known by its decision_id, so what OPA sends again, because an answer
// was lost or came late, is stored once.
package opasource

import (
	"errors"
	"fmt"
	"strings"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/httpsource"
)

// defaultPath is where OPA sends decisions unless decision_logs.resource is set.
const defaultPath = "/logs"

// statusPath is where the status plugin of OPA reports to the same service.
const statusPath = "/status"

// Definition describes the source "opa" for the registry.
var Definition = sources.Definition{
	Kind: "opa",
	NewConfig: func() sources.Config {
		return &Config{Path: defaultPath, MaxConnections: httpsource.DefaultConnections}
	},
	Sample: `# The decision logs of OPA: let its "services" point here.
- name: NAME
  opa:
    # CHANGE, with tls: OPA on another machine cannot reach this address
    address: 127.0.0.1:PORT8282
    #path: /logs                                           # decision_logs.resource of OPA
    #bearerTokenFile: /var/run/secrets/docket/opa-token    # the token that OPA must send
    #tls: {certFile: /etc/docket/tls.crt, keyFile: /etc/docket/tls.key}
`,
}

// Config is the section "opa" of a source.
type Config struct {
	// Address to listen on, host:port. Without a host: every address of the machine.
	Address string `yaml:"address"`
	// Path that OPA sends to, and anything below it: decision_logs.resource there.
	Path string `yaml:"path"`
	// BearerTokenFile holds the token that OPA must send; empty: it sends none.
	BearerTokenFile config.SecretFile `yaml:"bearerTokenFile"`
	// TLS is required unless only this machine can reach the address.
	TLS *config.ServerTLS `yaml:"tls"`
	// MaxConnections bounds the clients that are connected at a time.
	MaxConnections int `yaml:"maxConnections"`
}

// Claims implements config.Claimer.
func (c *Config) Claims() []config.Claim {
	return []config.Claim{{Key: "address", Kind: config.Address, Value: c.Address}}
}

// Validate reports every mistake. Nothing is resolved or opened.
func (c *Config) Validate() config.Problems {
	p := sources.CheckListen(c.Address, c.TLS, c.MaxConnections, "127.0.0.1:8282")
	p.Check("path", checkPath(c.Path))
	return p
}

func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?# ") {
		return errors.New("must be a path such as /logs, the decision_logs.resource of OPA")
	}
	if isAtOrBelow(path, statusPath) {
		return fmt.Errorf("must not be %s: OPA reports its status there, not decisions", path)
	}
	return nil
}

func (c *Config) server() httpsource.Config {
	return httpsource.Config{
		Address: c.Address, BearerTokenFile: c.BearerTokenFile, TLS: c.TLS, MaxConnections: c.MaxConnections,
	}
}

// MemoryBytes is what the source takes at most; see httpsource.Config.
func (c *Config) MemoryBytes(maxRecordBytes int) int64 {
	return c.server().MemoryBytes(maxRecordBytes)
}

// New makes the source. It binds nothing before Run.
func (c *Config) New(env sources.Env) sources.Source {
	path := strings.TrimRight(c.Path, "/")
	return httpsource.New(c.server(), httpsource.Protocol{
		Accepts:  func(p string) bool { return isAtOrBelow(p, path) },
		Ignores:  func(p string) bool { return isAtOrBelow(p, statusPath) },
		Identity: appendDecisionID,
	}, env)
}

// isAtOrBelow reports whether path is root or lies below it: a partition of OPA, whose
// name is the last part of the path.
func isAtOrBelow(path, root string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (rest == "" || rest[0] == '/')
}

// appendDecisionID appends the decision_id of an event to dst, nothing where it has none.
func appendDecisionID(dst, event []byte) []byte {
	return rawjson.Member(event, "decision_id").AppendText(dst)
}

// Accepts implements sources.Accepting.
func (c *Config) Accepts() int { return c.MaxConnections }
