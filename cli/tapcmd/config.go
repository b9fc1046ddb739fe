package tapcmd

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/internal/descriptors"
	"github.com/docket-export/docket/webhook"
	"github.com/docket-export/docket/webhook/tap"
)

// The head of a configuration file.
const (
	apiVersion = "docket.dev/v1alpha1"
	kind       = "Tap"
)

// Config is the configuration of one tap.
type Config struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Listen is where the API server connects to, host:port.
	Listen string `yaml:"listen"`
	// TLSDir has tls.crt and tls.key, which are re-read when they change.
	TLSDir   string         `yaml:"tlsDir"`
	Upstream UpstreamConfig `yaml:"upstream"`
	Docket   DocketConfig   `yaml:"docket"`
	// Decisions are the decisions that leave a record.
	Decisions []decision.Decision `yaml:"decisions"`
	// Include names the contents of records.
	Include []decision.Content `yaml:"include"`
	// Preset is the engine whose messages are split into violations. Empty: one record a
	// review.
	Preset string `yaml:"preset"`
	// Cluster is a field of every record.
	Cluster string `yaml:"cluster"`
	// ShutdownDelay is how long tap keeps serving after it was told to stop.
	ShutdownDelay config.Duration `yaml:"shutdownDelay"`
	Metrics       MetricsConfig   `yaml:"metrics"`
}

// UpstreamConfig is the section "upstream": the engine.
type UpstreamConfig struct {
	// URL is where the engine listens.
	URL string `yaml:"url"`
	// CAFile holds the CAs of the engine's certificate, in PEM form. Empty: the CAs of the
	// system.
	CAFile string `yaml:"caFile" file:"public"`
	// ServerName is the name that the engine's certificate must have. Empty: the host of
	// URL or, on a loopback address, a name of tap's own certificate.
	ServerName string `yaml:"serverName"`
}

// DocketConfig is the section "docket": where records go.
type DocketConfig struct {
	// Address of the exporter. Empty: nothing is recorded.
	Address string `yaml:"address"`
	// Mode says how a verdict depends on its record.
	Mode client.Mode `yaml:"mode"`
	// Timeout bounds how long a verdict waits for its record, in the modes that wait.
	Timeout config.Duration `yaml:"timeout"`
	// MaxBufferedBytes bounds the records that wait for the exporter.
	MaxBufferedBytes config.Size `yaml:"maxBufferedBytes"`
	// TLS is how a tcp connection is protected.
	TLS *config.TLS `yaml:"tls"`
}

// MetricsConfig is the section "metrics": the second listener.
type MetricsConfig struct {
	// Address has /livez, /readyz and /metrics, without TLS. Empty: none.
	Address string `yaml:"address"`
}

// defaultConfig is a configuration that lacks what has no default: where the engine and
// the certificates are, and where records go.
func defaultConfig() Config {
	return Config{
		APIVersion: apiVersion,
		Kind:       kind,
		Listen:     ":8443",
		Docket: DocketConfig{
			Mode:             client.Batch,
			Timeout:          config.Duration(client.DefaultTimeout),
			MaxBufferedBytes: client.DefaultBufferedBytes,
		},
		Decisions:     []decision.Decision{decision.Deny, decision.Warn, decision.Error},
		ShutdownDelay: config.Duration(10 * time.Second),
	}
}

// IsTap reports whether text is a configuration file of kind Tap.
func IsTap(text []byte) bool {
	root, _ := config.Parse(text)
	var head struct {
		Kind string                 `yaml:"kind"`
		Rest map[string]config.Node `yaml:",rest"`
	}
	_ = root.Decode(&head) // what is wrong is found by who loads it
	return head.Kind == kind
}

// Load reads a configuration file and reports every mistake in it. It uses neither files nor
// network.
func Load(text []byte) (*Config, config.Problems) {
	root, problems := config.Parse(text)
	if root.IsZero() {
		return nil, problems
	}
	c := defaultConfig()
	c.APIVersion, c.Kind = "", ""
	problems = append(problems, root.Decode(&c)...)
	section, _ := root.Get("docket")
	found := c.validate(slices.Contains(section.Keys(), "address"))
	for _, f := range found { // but what only follows from a value that could not be read
		if !slices.ContainsFunc(problems, func(p config.Problem) bool { return p.Path == f.Path }) {
			problems = append(problems, f)
		}
	}
	if len(problems) > 0 {
		return nil, root.Locate(problems)
	}
	return &c, nil
}

// validate checks everything. withAddress says that the address of docket was given, be it
// empty: nobody records nothing by mistake.
func (c *Config) validate(withAddress bool) config.Problems {
	var p config.Problems
	p.Check("apiVersion", config.Choice(c.APIVersion, apiVersion))
	p.Check("kind", config.Choice(c.Kind, kind))
	p.Check("listen", config.Required(c.Listen, "is required: host:port where the API server connects, such as :8443"), config.HostPort(c.Listen))
	p.Check("tlsDir", config.Required(c.TLSDir, "is required: the directory with tls.crt and tls.key, such as /certs"))
	p.Check("upstream.url", tap.CheckUpstream(c.Upstream.URL))
	p.Refuse(c.Upstream.CAFile != "" && strings.HasPrefix(c.Upstream.URL, "http:"), "upstream.caFile", "must be left out: an engine that is reached with http:// shows no certificate")
	p.Refuse(len(c.Decisions) == 0, "decisions", "needs at least one of deny, warn, error and allow")
	p = append(p, config.Each("decisions", c.Decisions, func(d decision.Decision) error { _, err := webhook.ParseDecisions(string(d)); return err })...)
	p = append(p, config.Each("include", c.Include, func(c decision.Content) error { _, err := webhook.ParseInclude(cmp.Or(string(c), " ")); return err })...)
	if c.Preset != "" {
		_, err := webhook.ParsePreset(c.Preset)
		p.Check("preset", err)
	}
	p.Check("shutdownDelay", config.NotNegative(c.ShutdownDelay))
	if c.Metrics.Address != "" {
		p.Check("metrics.address", config.HostPort(c.Metrics.Address))
	}
	return append(p, c.Docket.validate(withAddress).In("docket")...)
}

func (d *DocketConfig) validate(withAddress bool) (p config.Problems) {
	p.Check("timeout", config.Positive(d.Timeout))
	p.Check("mode", config.Choice(d.Mode, client.Batch, client.Blocking, client.BlockingStrict))
	p = append(p, d.TLS.Validate().In("tls")...)
	switch {
	case !withAddress:
		p.Addf("address", "is required: such as unix:///run/docket/docket.sock; '' records nothing")
	case d.Address == "" && (d.Mode == client.Blocking || d.Mode == client.BlockingStrict):
		p.Addf("mode", "must be Batch when the address of docket is empty: tap then records nothing, and mode %s waits for records", d.Mode)
	}
	if d.MaxBufferedBytes < client.MinBufferedBytes {
		p.Addf("maxBufferedBytes", "must be at least %s", config.Size(client.MinBufferedBytes))
	}
	// The rest is the client's to know; the values above have been checked.
	c := d.client()
	c.Mode, c.Timeout, c.MaxBufferedBytes = "", 0, 0
	joined, _ := c.Validate().(interface{ Unwrap() []error })
	if joined == nil {
		return p
	}
	for _, err := range joined.Unwrap() {
		if problem, ok := errors.AsType[client.Problem](err); ok {
			p.Addf(problem.Key, "%s", problem.Text)
		}
	}
	return p
}

// client is the configuration of the client of the exporter.
func (d *DocketConfig) client() client.Config {
	c := client.Config{
		Address:          d.Address,
		Mode:             d.Mode,
		Timeout:          time.Duration(d.Timeout),
		MaxBufferedBytes: int(d.MaxBufferedBytes),
	}
	if t := d.TLS; t != nil {
		c.TLS = &client.TLSConfig{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName}
	}
	return c
}

// Files lists every file that c names.
func (c *Config) Files() []config.FileUse {
	own := []config.FileUse{
		{Path: "tlsDir", File: filepath.Join(c.TLSDir, "tls.crt")},
		{Path: "tlsDir", File: filepath.Join(c.TLSDir, "tls.key"), Secret: true},
	}
	return append(own, config.Files(c)...)
}

// YAML returns c as a configuration file with every default written out.
func (c *Config) YAML() ([]byte, error) {
	text, err := config.Encode(c)
	if err != nil {
		return nil, fmt.Errorf("configuration as YAML: %w", err)
	}
	return text, nil
}

// Bounds of what a tap has in memory.
const (
	// maxConnections is more than API servers open: one of them has some dozens.
	maxConnections = 256
	// connectionBytes are the buffers of a connection with a request under way: TLS and
	// headers on both sides, what is copied, and bodies from clients of HTTP/2 that the engine
	// has not read.
	connectionBytes = 160<<10 + 256<<10
	// maxRequests is more than the API servers of a cluster have under way.
	maxRequests = 1024
	// requestBytes are the buffers of a request that is not the first of its connection.
	requestBytes = 96 << 10
	// programBytes are the Go runtime and the pages of the program that stay.
	programBytes = 10 << 20
	// recordingBytes are what is kept of reviews until they are records.
	recordingBytes = 40 << 20
)

// reservedFiles are descriptors for the endpoint, docket, certificates and what is looked up.
const reservedFiles = 128

// connectionsWithin is how many connections a tap serves whose process may have so many
// descriptors. Each may have one to the engine, too.
func connectionsWithin(limit uint64) int {
	return descriptors.Share(limit/2, reservedFiles/2, []int{maxConnections})[0]
}

// MemoryCeiling returns the memory that a tap needs at most, whatever clients send.
func (c *Config) MemoryCeiling() int64 {
	bytes := int64(programBytes + maxConnections*connectionBytes + (maxRequests-maxConnections)*requestBytes)
	if c.Docket.Address != "" {
		bytes += recordingBytes + int64(c.Docket.MaxBufferedBytes)
	}
	return bytes
}

// Schema returns the shape of the configuration files that Load accepts. describe returns
// the description of a path such as "upstream.url", or "" without one.
func Schema(describe func(path string) string) map[string]any {
	c := defaultConfig()
	c.APIVersion, c.Kind = "", ""
	return config.Schema(&c, "", describe)
}
