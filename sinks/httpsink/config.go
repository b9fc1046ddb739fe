package httpsink

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/httpsink/encoding"
)

// Definition describes the http sink.
var Definition = sinks.Definition{
	Kind:      "http",
	Batch:     sinks.DefaultBatch(),
	NewConfig: func() sinks.Config { return defaultConfig() },
	Sample: `# Batches for a receiver of HTTP.
- name: NAME
  #when: record.enforcementAction == "deny"   # only these records; without it, all
  http:
    url: https://siem.example.com/ingest   # CHANGE
    #encoding: otlp                        # or ndjson, jsonArray, cloudEvents, splunkHEC, elasticsearchBulk, loki
    #compression: gzip
    #bearerTokenFile: /var/run/secrets/siem/token
    #basic: {username: docket, passwordFile: /var/run/secrets/siem/password}
    #headerFiles: {X-Api-Key: /var/run/secrets/siem/key}
    #tls: {caFile: /etc/docket/siem-ca.crt}
`,
}

// Config says where batches are posted, and how.
type Config struct {
	// URL is where batches are posted: absolute, http or https. It must not hold
	// secrets: `docket config` prints it. Errors, logs and /status never show its
	// query.
	URL string `yaml:"url"`

	encoding.Config `yaml:",inline"`

	// Compression is none, gzip or zstd.
	Compression string `yaml:"compression"`
	// CompressionLevel is 1 to 9 for gzip and 1 to 22 for zstd; 0 leaves it to
	// the library.
	CompressionLevel int `yaml:"compressionLevel"`

	// Headers are added to every request. They must not hold secrets.
	Headers headers `yaml:"headers"`
	// HeaderFiles are headers whose values are secrets: each names a file that is
	// read again for every attempt.
	HeaderFiles headerFiles `yaml:"headerFiles"`

	// BearerTokenFile names a file whose content is sent as "Authorization: Bearer
	// ...", or with the word that the protocol of the encoding uses instead of
	// Bearer. It is read again for every attempt, so that a rotated token needs no
	// restart.
	BearerTokenFile config.SecretFile `yaml:"bearerTokenFile"`
	// Basic is a user and a password.
	Basic *Basic `yaml:"basic"`
	// OAuth2 gets a token with the credentials of a client.
	OAuth2 *OAuth2 `yaml:"oauth2"`
	// InsecureCredentials permits credentials over http:// to other machines, where
	// anybody on the way can read them. Loopback addresses need no permission.
	InsecureCredentials bool `yaml:"insecureCredentials"`

	// TLS says whom to trust and which certificate to show. Without it the
	// system's roots are trusted and no certificate is shown.
	TLS *config.TLS `yaml:"tls"`
	// Timeout bounds one attempt, from the connection to the answer.
	Timeout config.Duration `yaml:"timeout"`
}

func defaultConfig() *Config {
	return &Config{
		Config:      encoding.Config{Encoding: encoding.Names[0]},
		Compression: compressNone,
		Timeout:     config.Duration(30 * time.Second),
	}
}

// Validate implements sinks.Config.
func (c *Config) Validate() config.Problems {
	p := c.Config.Validate()
	c.validateCompression(&p)
	p.Check("url", config.Required(c.URL, "is required"), checkURL(c.URL))
	p.Refuse(c.TLS != nil && strings.HasPrefix(c.URL, "http:"), "tls", "has no effect on an http:// url: use https:// or remove it")
	p = append(p, c.TLS.Validate().In("tls")...)
	if c.Basic != nil {
		p.Refuse(c.BearerTokenFile != "", "basic", besideBearer)
		p = append(p, c.Basic.validate().In("basic")...)
	}
	if c.OAuth2 != nil {
		p.Refuse(c.BearerTokenFile != "", "oauth2", besideBearer)
		p.Refuse(c.BearerTokenFile == "" && c.Basic != nil, "oauth2", "must not be set beside basic: a request has one Authorization header")
		p = append(p, c.OAuth2.validate().In("oauth2")...)
	}
	p.Check("timeout", config.Positive(c.Timeout))
	c.validateHeaders(&p)
	c.validateInClear(&p)
	return p
}

const besideBearer = "must not be set beside bearerTokenFile: a request has one Authorization header"

// FormerKeys implements config.Reduced.
func (Config) FormerKeys() map[string]string {
	return map[string]string{
		"signature":   "docket no longer signs requests: authenticate it to the receiver with tls.certFile, oauth2 or bearerTokenFile",
		"maxInFlight": "a sink now sends one batch at a time, in order: remove this key, and raise batch.maxRecords and batch.maxBytes if the sink is too slow",
	}
}

func checkURL(text string) error {
	return checkAddress(text, "https://siem.example.com/ingest", "basic or bearerTokenFile")
}

// checkAddress says what is wrong with a URL, without repeating it: it may hold a secret.
func checkAddress(text, example, credentials string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("cannot be parsed: write it as https://host:port/path")
	}
	switch {
	case !u.IsAbs() || u.Host == "":
		return fmt.Errorf("must be absolute, such as %s", example)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("must start with http:// or https://, not %s://", u.Scheme)
	case u.Hostname() == "":
		return errors.New("must name a host")
	case u.User != nil:
		return fmt.Errorf("must not hold credentials: use %s", credentials)
	}
	return nil
}

// Open implements sinks.Config. It fails when a TLS file cannot be read.
func (c *Config) Open(context.Context, sinks.Env) (sinks.Sink, error) {
	s, err := open(c)
	if err != nil {
		return nil, err
	}
	return s, nil
}
