// Package kubeauditsource takes in the audit events of a kube-apiserver: it is the
// service that --audit-webhook-config-file names.
//
//	source.go    the source "kubernetesAudit": its configuration
//	identity.go  what an event is known by when it comes again
//	preset.go    which events tell of a decision of admission
//
// The API server sends lists of events (EventList of audit.k8s.io) and takes any 2xx for
// an answer. On anything else it sends the list again, four times, and then drops it.
package kubeauditsource

import (
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/httpsource"
)

// Path is where a kubeconfig should send events. The source takes events at any other
// path too: it serves nothing else, and an API server drops events that it cannot
// deliver.
const Path = "/audit"

// Definition describes the source "kubernetesAudit" for the registry.
var Definition = sources.Definition{
	Kind: "kubernetesAudit",
	NewConfig: func() sources.Config {
		return &Config{Preset: All, MaxConnections: httpsource.DefaultConnections}
	},
	Sample: `# The audit webhook of kube-apiserver: docs/sources/kubernetes-audit.md has the file that it
# needs.
- name: NAME
  kubernetesAudit:
    # CHANGE, with tls: an API server on another machine cannot reach this address
    address: 127.0.0.1:PORT8443
    preset: AdmissionDecisions   # or All: every event
    #bearerTokenFile: /var/run/secrets/docket/audit-token
    #tls: {certFile: /etc/docket/tls.crt, keyFile: /etc/docket/tls.key}
`,
}

// Config is the section "kubernetesAudit" of a source.
type Config struct {
	// Address to listen on, host:port. Without a host: every address of the machine.
	Address string `yaml:"address"`
	// Preset says which events are stored.
	Preset Preset `yaml:"preset"`
	// BearerTokenFile holds the token that the API server must send; empty: it sends
	// none. It sends one over TLS only.
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
	p := sources.CheckListen(c.Address, c.TLS, c.MaxConnections, "127.0.0.1:8283")
	p.Check("preset", config.Choice(c.Preset, All, AdmissionDecisions))
	return p
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
	return httpsource.New(c.server(), httpsource.Protocol{
		Accepts:  func(string) bool { return true },
		Member:   "items",
		Keep:     c.Preset.keep(),
		Identity: appendIdentity,
	}, env)
}

// Accepts implements sources.Accepting.
func (c *Config) Accepts() int { return c.MaxConnections }
