package kafkasink

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/config"
)

func TestValidate(t *testing.T) {
	const brokerHint = `must be host:port, such as kafka-0:9092, not `
	const keyHint = `must be field names joined by dots, such as object.kind, not `
	const topicHint = `topic: must be at most 249 letters, digits, dots, underscores and hyphens, not `
	for name, test := range map[string]struct {
		change func(*Config)
		want   string // all problems, one a line
	}{
		"good":        {func(c *Config) {}, ""},
		"IPv6":        {func(c *Config) { c.Brokers = []string{"[::1]:9092"} }, ""},
		"keys":        {func(c *Config) { c.Key = []string{"resourceName", "object.metadata-x.name_y"} }, ""},
		"no brokers":  {func(c *Config) { c.Brokers = nil }, "brokers: must name at least one broker, such as kafka-0:9092"},
		"no port":     {func(c *Config) { c.Brokers = []string{"a:1", "kafka-0"} }, `brokers[1]: ` + brokerHint + `"kafka-0"`},
		"no host":     {func(c *Config) { c.Brokers = []string{":9092"} }, `brokers[0]: ` + brokerHint + `":9092"`},
		"port zero":   {func(c *Config) { c.Brokers = []string{"a:0"} }, `brokers[0]: ` + brokerHint + `"a:0"`},
		"large port":  {func(c *Config) { c.Brokers = []string{"a:65536"} }, `brokers[0]: ` + brokerHint + `"a:65536"`},
		"url":         {func(c *Config) { c.Brokers = []string{"kafka://a:9092"} }, `brokers[0]: ` + brokerHint + `"kafka://a:9092"`},
		"no topic":    {func(c *Config) { c.Topic = "" }, "topic: is required"},
		"topic":       {func(c *Config) { c.Topic = "a/b" }, topicHint + `"a/b"`},
		"dots":        {func(c *Config) { c.Topic = ".." }, topicHint + `".."`},
		"long topic":  {func(c *Config) { c.Topic = strings.Repeat("a", 250) }, topicHint + `"` + strings.Repeat("a", 250) + `"`},
		"empty key":   {func(c *Config) { c.Key = []string{""} }, `key[0]: ` + keyHint + `""`},
		"empty part":  {func(c *Config) { c.Key = []string{"a..b"} }, `key[0]: ` + keyHint + `"a..b"`},
		"wildcard":    {func(c *Config) { c.Key = []string{"a", "b*"} }, `key[1]: ` + keyHint + `"b*"`},
		"modifier":    {func(c *Config) { c.Key = []string{"@this"} }, `key[0]: ` + keyHint + `"@this"`},
		"compression": {func(c *Config) { c.Compression = "Zstd" }, `compression: must be none, gzip, snappy, lz4 or zstd, not "Zstd"`},
		"timeout":     {func(c *Config) { c.Timeout = 0 }, "timeout: must be positive"},
		"tls":         {func(c *Config) { c.TLS = &config.TLS{KeyFile: "x"} }, "tls.certFile: must be set because keyFile is"},
		"all at once": {func(c *Config) { c.Brokers, c.Topic, c.Timeout = nil, "", -1 },
			"brokers: must name at least one broker, such as kafka-0:9092\ntopic: is required\ntimeout: must be positive"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Definition.NewConfig().(*Config)
			c.Brokers, c.Topic = []string{"kafka-0:9092"}, topic
			test.change(c)
			if got := c.Validate().Error(); got != test.want {
				t.Errorf("Validate = %q, want %q", got, test.want)
			}
		})
	}
}

func TestDefinition(t *testing.T) {
	if err := Definition.Batch.Validate().Err(); err != nil {
		t.Errorf("default batch: %v", err)
	}
	c := Definition.NewConfig().(*Config)
	if c.Timeout.String() != "10s" || c.ClientID != "docket" || c.Compression != "none" {
		t.Errorf("defaults are %s, %q, %q, want 10s, docket, none", c.Timeout, c.ClientID, c.Compression)
	}
}
