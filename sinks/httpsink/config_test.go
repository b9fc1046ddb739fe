package httpsink

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/httpsink/encoding"
)

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string // all problems, one a line
	}{
		"good":        {func(c *Config) { c.URL = "https://siem.example.com/ingest?a=b" }, ""},
		"no url":      {func(c *Config) {}, "url: is required"},
		"relative":    {func(c *Config) { c.URL = "/ingest" }, "url: must be absolute, such as https://siem.example.com/ingest"},
		"no host":     {func(c *Config) { c.URL = "https://:8443/ingest" }, "url: must name a host"},
		"scheme":      {func(c *Config) { c.URL = "ftp://siem.example.com" }, "url: must start with http:// or https://, not ftp://"},
		"credentials": {func(c *Config) { c.URL = "https://u:s3cret@siem.example.com" }, "url: must not hold credentials: use basic or bearerTokenFile"},
		"unparsable":  {func(c *Config) { c.URL = "https://siem.example.com:s3cret:1" }, "url: cannot be parsed"},
		"tls on http": {func(c *Config) { c.URL, c.TLS = "http://a", &config.TLS{} }, "tls: has no effect on an http:// url: use https:// or remove it"},
		"encoding":    {func(c *Config) { c.URL, c.Encoding = "https://a", "xml" }, "encoding: must be ndjson, jsonArray, cloudEvents, otlp, splunkHEC, elasticsearchBulk or loki, not \"xml\""},
		"section of another encoding": {func(c *Config) { c.URL, c.Loki = "https://a", &encoding.Loki{} },
			"loki: has no effect without encoding: loki: set it, or remove this section"},
		"compression":    {func(c *Config) { c.URL, c.Compression = "https://a", "lz4" }, "compression: must be none, gzip or zstd, not \"lz4\""},
		"level of none":  {func(c *Config) { c.URL, c.CompressionLevel = "https://a", 3 }, "compressionLevel: has no effect without compression: set compression to gzip or zstd"},
		"level too high": {func(c *Config) { c.URL, c.Compression, c.CompressionLevel = "https://a", "gzip", 10 }, "compressionLevel: must be between 1 and 9 for gzip, or 0 for its default"},
		"level below 0":  {func(c *Config) { c.URL, c.Compression, c.CompressionLevel = "https://a", "zstd", -1 }, "compressionLevel: must be between 1 and 22 for zstd, or 0 for its default"},
		"zstd for loki": {func(c *Config) { c.URL, c.Encoding, c.Compression = "https://a", "loki", "zstd" },
			"compression: must be none or gzip with encoding: loki, whose receivers do not read zstd"},
		"headers":              {func(c *Config) { c.URL, c.Headers = "https://a", headers{"X-Scope-OrgID": "a b", "x": ""} }, ""},
		"header name":          {func(c *Config) { c.URL, c.Headers = "https://a", headers{"X Y": "a"} }, "headers.X Y: is not a header name: use letters, digits and hyphens"},
		"header value":         {func(c *Config) { c.URL, c.Headers = "https://a", headers{"X-Y": "s3cret\r\nHost: a"} }, "headers.X-Y: must be printable ASCII text without spaces around it"},
		"header of docket":     {func(c *Config) { c.URL, c.Headers = "https://a", headers{"docket-queue": "a"} }, "headers.docket-queue: is set by docket itself: remove it"},
		"credential as header": {func(c *Config) { c.URL, c.Headers = "https://a", headers{"authorization": "s3cret"} }, "headers.authorization: is for credentials: write its value into a file and name the file in headerFiles"},
		"header in both": {func(c *Config) {
			c.URL, c.Headers, c.HeaderFiles = "https://a", headers{"X-Y": "a"}, headerFiles{"x-y": "f"}
		}, "headerFiles.x-y: is set twice: header names ignore case, in headers and headerFiles together"},
		"no header file": {func(c *Config) { c.URL, c.HeaderFiles = "https://a", headerFiles{"X-Y": ""} }, "headerFiles.X-Y: must name a file"},
		"basic":          {func(c *Config) { c.URL, c.Basic = "https://a", &Basic{Username: "a:b"} }, "basic.username: must not contain a colon: the colon would end the name\nbasic.passwordFile: is required"},
		"two kinds of authorization": {func(c *Config) {
			c.URL, c.BearerTokenFile, c.Basic = "https://a", "f", &Basic{Username: "a", PasswordFile: "f"}
		}, "basic: must not be set beside bearerTokenFile: a request has one Authorization header"},
		"a third by header": {func(c *Config) {
			c.URL, c.BearerTokenFile, c.HeaderFiles = "https://a", "f", headerFiles{"authorization": "f"}
		},
			"headerFiles.authorization: must not be set beside bearerTokenFile: a request has one Authorization header"},
		"oauth2 style": {func(c *Config) {
			c.URL, c.OAuth2 = "https://a", &OAuth2{TokenURL: "https://b", ClientID: "c", ClientSecretFile: "f", AuthStyle: "Both"}
		}, `oauth2.authStyle: must be Header or Body, not "Both"`},
		"oauth2": {func(c *Config) { c.URL, c.OAuth2 = "https://a", &OAuth2{} },
			"oauth2.tokenURL: is required\noauth2.clientID: is required\noauth2.clientSecretFile: is required"},
		"oauth2 parameters": {func(c *Config) {
			c.URL, c.OAuth2 = "https://a", &OAuth2{
				TokenURL: "http://docket:s3cret@127.0.0.1", ClientID: "c", ClientSecretFile: "f",
				EndpointParams: map[string]string{"scope": "x", "audience": "y"}, TLS: &config.TLS{KeyFile: "k"},
			}
		}, "oauth2.tokenURL: must not hold credentials: use clientID and clientSecretFile\n" +
			"oauth2.tls: has no effect on an http:// tokenURL: use https:// or remove it\n" +
			"oauth2.tls.certFile: must be set because keyFile is\n" +
			"oauth2.endpointParams.scope: is set from clientID, clientSecretFile and scopes: remove it"},
		"all at once": {func(c *Config) { c.URL, c.Timeout = "", -1 }, "url: is required\ntimeout: must be positive"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Definition.NewConfig().(*Config)
			test.change(c)
			got := c.Validate().Error()
			if got != test.want && !(name == "unparsable" && strings.HasPrefix(got, test.want)) {
				t.Errorf("Validate = %q, want %q", got, test.want)
			}
			if strings.Contains(got, "s3cret") {
				t.Errorf("Validate gives a secret away: %q", got)
			}
		})
	}
}

var (
	_ sinks.Prober = (*Config)(nil)
)

// What is said of a configuration as a whole repeats no values of headers.
func TestHeadersAreNotShown(t *testing.T) {
	c := defaultConfig()
	c.Headers = headers{"X-B": "s3cret", "X-A": "s3cret"}
	if got, want := c.Headers.String(), "X-A, X-B"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
}
