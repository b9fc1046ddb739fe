package httpsink

import (
	"context"
	"net/url"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Definition describes the http sink.
var Definition = sinks.Definition{
	Kind:      "http",
	Batch:     sinks.DefaultBatch(),
	NewConfig: func() sinks.Config { return defaultConfig() },
}

// Config says where batches are posted.
type Config struct {
	// URL is where batches are posted: absolute, http or https. Errors, logs and
	// /status never show its query, since receivers are known to take tokens
	// there; `docket config` prints it, so bearerTokenFile is the better place.
	URL string `yaml:"url"`
	// BearerTokenFile names a file whose content is sent as
	// "Authorization: Bearer ...". It is read again for every attempt, so that
	// a rotated token needs no restart.
	BearerTokenFile config.SecretFile `yaml:"bearerTokenFile"`
	// TLS says whom to trust and which certificate to show. Without it the
	// system's roots are trusted and no certificate is shown.
	TLS *config.TLS `yaml:"tls"`
	// Timeout bounds one attempt, from the connection to the answer.
	Timeout config.Duration `yaml:"timeout"`
}

func defaultConfig() *Config {
	return &Config{Timeout: config.Duration(30 * time.Second)}
}

// Validate implements sinks.Config.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	c.validateURL(&p)
	if c.TLS != nil {
		p = append(p, c.TLS.Validate().In("tls")...)
	}
	if c.Timeout <= 0 {
		p.Addf("timeout", "must be positive")
	}
	return p
}

// validateURL never repeats the URL: it may hold a secret.
func (c *Config) validateURL(p *config.Problems) {
	if c.URL == "" {
		p.Addf("url", "is required")
		return
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		p.Addf("url", "cannot be parsed: write it as https://host:port/path")
		return
	}
	switch {
	case !u.IsAbs() || u.Host == "":
		p.Addf("url", "must be absolute, such as https://siem.example.com/ingest")
	case u.Scheme != "http" && u.Scheme != "https":
		p.Addf("url", "must start with http:// or https://, not %s://", u.Scheme)
	case u.Hostname() == "":
		p.Addf("url", "must name a host")
	}
	if u.User != nil {
		p.Addf("url", "must not hold credentials: use bearerTokenFile")
	}
	if c.TLS != nil && u.Scheme == "http" {
		p.Addf("tls", "has no effect on an http:// url: use https:// or remove it")
	}
}

// Open implements sinks.Config. It fails when a TLS file cannot be read.
func (c *Config) Open(_ context.Context, _ sinks.Env) (sinks.Sink, error) {
	return open(c)
}
