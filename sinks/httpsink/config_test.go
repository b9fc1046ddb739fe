package httpsink

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/config"
)

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string // all problems, one a line
	}{
		"good":        {func(c *Config) { c.URL = "https://siem.example.com/ingest?a=b" }, ""},
		"port":        {func(c *Config) { c.URL = "http://127.0.0.1:8080" }, ""},
		"no url":      {func(c *Config) {}, "url: is required"},
		"relative":    {func(c *Config) { c.URL = "/ingest" }, "url: must be absolute, such as https://siem.example.com/ingest"},
		"no scheme":   {func(c *Config) { c.URL = "siem.example.com/ingest" }, "url: must be absolute, such as https://siem.example.com/ingest"},
		"no host":     {func(c *Config) { c.URL = "https://:8443/ingest" }, "url: must name a host"},
		"scheme":      {func(c *Config) { c.URL = "ftp://siem.example.com" }, "url: must start with http:// or https://, not ftp://"},
		"credentials": {func(c *Config) { c.URL = "https://u:s3cret@siem.example.com" }, "url: must not hold credentials: use bearerTokenFile"},
		"unparsable":  {func(c *Config) { c.URL = "https://siem.example.com:s3cret:1" }, "url: cannot be parsed"},
		"timeout":     {func(c *Config) { c.URL, c.Timeout = "https://a", 0 }, "timeout: must be positive"},
		"tls on http": {func(c *Config) { c.URL, c.TLS = "http://a", &config.TLS{} }, "tls: has no effect on an http:// url: use https:// or remove it"},
		"tls": {func(c *Config) { c.URL, c.TLS = "https://a", &config.TLS{CertFile: "x"} },
			"tls.keyFile: must be set because certFile is"},
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

func TestDefinition(t *testing.T) {
	if err := Definition.Batch.Validate().Err(); err != nil {
		t.Errorf("default batch: %v", err)
	}
	if got := Definition.NewConfig().(*Config).Timeout.String(); got != "30s" {
		t.Errorf("default timeout is %s, want 30s", got)
	}
}
