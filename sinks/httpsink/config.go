package httpsink

import (
	"context"
	"net/url"
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
}

// Config says where batches are posted, and how.
type Config struct {
	// URL is where batches are posted: absolute, http or https. `docket config`
	// prints it, so a query that looks like a secret is refused. Errors, logs and
	// /status never show its query: not everything that is secret looks like it.
	URL string `yaml:"url"`

	// Encoding is how a batch becomes a request body, one of encoding.Names. The
	// section of the same name has its options.
	Encoding          string                      `yaml:"encoding"`
	CloudEvents       *encoding.CloudEvents       `yaml:"cloudEvents"`
	OTLP              *encoding.OTLP              `yaml:"otlp"`
	SplunkHEC         *encoding.SplunkHEC         `yaml:"splunkHEC"`
	ElasticsearchBulk *encoding.ElasticsearchBulk `yaml:"elasticsearchBulk"`
	Loki              *encoding.Loki              `yaml:"loki"`

	// Compression is none, gzip or zstd.
	Compression string `yaml:"compression"`
	// CompressionLevel is 1 to 9 for gzip and 1 to 22 for zstd; 0 leaves it to
	// the library.
	CompressionLevel int `yaml:"compressionLevel"`

	// Headers are added to every request. They are no place for secrets.
	Headers headers `yaml:"headers"`
	// HeaderFiles are headers whose values are secrets: each names a file that is
	// read again for every attempt.
	HeaderFiles headerFiles `yaml:"headerFiles"`

	// BearerTokenFile names a file whose content is sent as
	// "Authorization: Bearer ...", or with the word that the encoding's protocol
	// has for Bearer. It is read again for every attempt, so that a rotated token
	// needs no restart.
	BearerTokenFile config.SecretFile `yaml:"bearerTokenFile"`
	// Basic is a user and a password.
	Basic *Basic `yaml:"basic"`
	// OAuth2 gets a token with the credentials of a client.
	OAuth2 *OAuth2 `yaml:"oauth2"`
	// InsecureCredentials permits credentials over http:// to other machines, where
	// anybody on the way can read them. Loopback addresses need no permission.
	InsecureCredentials bool `yaml:"insecureCredentials"`
	// Signature lets the receiver prove that a batch comes from here.
	Signature *Signature `yaml:"signature"`

	// TLS says whom to trust and which certificate to show. Without it the
	// system's roots are trusted and no certificate is shown.
	TLS *config.TLS `yaml:"tls"`
	// Timeout bounds one attempt, from the connection to the answer.
	Timeout config.Duration `yaml:"timeout"`
	// InFlight is how many batches may be under way at a time. Above 1 they reach
	// the receiver in any order.
	InFlight int `yaml:"maxInFlight"`
}

// mostInFlight bounds Config.InFlight: each batch under way is held in memory,
// as record bytes and as a request body.
const mostInFlight = 64

func defaultConfig() *Config {
	return &Config{
		Encoding:    encoding.Names[0],
		Compression: compressNone,
		Timeout:     config.Duration(30 * time.Second),
		InFlight:    1,
	}
}

// encodings is what package encoding wants to know.
func (c *Config) encodings() encoding.Config {
	return encoding.Config{
		CloudEvents:       c.CloudEvents,
		OTLP:              c.OTLP,
		SplunkHEC:         c.SplunkHEC,
		ElasticsearchBulk: c.ElasticsearchBulk,
		Loki:              c.Loki,
	}
}

// MaxInFlight implements sinks.Concurrent.
func (c *Config) MaxInFlight() int { return c.InFlight }

// Validate implements sinks.Config.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	c.validateURL(&p)
	encodings := c.encodings()
	p = append(p, encodings.Validate(c.Encoding)...)
	c.validateCompression(&p)
	c.validateHeaders(&p)
	c.validateAuth(&p)
	c.validateInClear(&p)
	if c.Signature != nil && c.Signature.SecretFile == "" {
		p.Addf("signature.secretFile", "is required")
	}
	if c.TLS != nil {
		p = append(p, c.TLS.Validate().In("tls")...)
	}
	if c.Timeout <= 0 {
		p.Addf("timeout", "must be positive")
	}
	if c.InFlight < 1 || c.InFlight > mostInFlight {
		p.Addf("maxInFlight", "must be between 1 and %d", mostInFlight)
	}
	return p
}

// validateURL never repeats the URL: it may hold a secret.
func (c *Config) validateURL(p *config.Problems) {
	u := validURL(p, "url", c.URL, "https://siem.example.com/ingest")
	if u == nil {
		return
	}
	if u.User != nil {
		p.Addf("url", "must not hold credentials: use basic or bearerTokenFile")
	}
	if name := secretInQuery(u); name != "" {
		p.Addf("url", "must not hold a secret, and %s in its query looks like one: write the value into a file, name that in headerFiles, and have it sent as a header", name)
	}
	if c.TLS != nil && u.Scheme == "http" {
		p.Addf("tls", "has no effect on an http:// url: use https:// or remove it")
	}
}

// validURL reports what is wrong with the URL at key, without repeating it. It
// returns nil when there is nothing that could be parsed.
func validURL(p *config.Problems, key, text, example string) *url.URL {
	if text == "" {
		p.Addf(key, "is required")
		return nil
	}
	u, err := url.Parse(text)
	if err != nil {
		p.Addf(key, "cannot be parsed: write it as https://host:port/path")
		return nil
	}
	switch {
	case !u.IsAbs() || u.Host == "":
		p.Addf(key, "must be absolute, such as %s", example)
	case u.Scheme != "http" && u.Scheme != "https":
		p.Addf(key, "must start with http:// or https://, not %s://", u.Scheme)
	case u.Hostname() == "":
		p.Addf(key, "must name a host")
	}
	return u
}

// Open implements sinks.Config. It fails when a TLS file cannot be read.
func (c *Config) Open(context.Context, sinks.Env) (sinks.Sink, error) {
	s, err := open(c)
	if err != nil {
		return nil, err
	}
	return s, nil
}
