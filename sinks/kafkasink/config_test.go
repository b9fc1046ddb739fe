package kafkasink

import (
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/config"
)

func TestValidate(t *testing.T) {
	const brokerHint = `must be host:port, such as kafka-0:9092, not `
	const plaintextHint = " would send the secret unencrypted: set tls, or use SCRAM-SHA-512; brokers on loopback addresses need neither"
	const keyHint = `must be field names joined by dots, such as object.kind, not `
	const topicHint = `topic: must be at most 249 letters, digits, dots, underscores and hyphens, not `
	for name, test := range map[string]struct {
		change func(*Config)
		want   string // all problems, one a line
	}{
		"good":        {func(c *Config) {}, ""},
		"keys":        {func(c *Config) { c.Key = []string{"resourceName", "object.metadata-x.name_y"} }, ""},
		"no brokers":  {func(c *Config) { c.Brokers = nil }, "brokers: must name at least one broker, such as kafka-0:9092"},
		"no port":     {func(c *Config) { c.Brokers = []string{"a:1", "kafka-0"} }, `brokers[1]: ` + brokerHint + `"kafka-0"`},
		"port zero":   {func(c *Config) { c.Brokers = []string{"a:0"} }, `brokers[0]: ` + brokerHint + `"a:0"`},
		"no topic":    {func(c *Config) { c.Topic = "" }, "topic: is required"},
		"topic":       {func(c *Config) { c.Topic = "a/b" }, topicHint + `"a/b"`},
		"long topic":  {func(c *Config) { c.Topic = strings.Repeat("a", 250) }, topicHint + `"` + strings.Repeat("a", 250) + `"`},
		"empty part":  {func(c *Config) { c.Key = []string{"a..b"} }, `key[0]: ` + keyHint + `"a..b"`},
		"wildcard":    {func(c *Config) { c.Key = []string{"a", "b*"} }, `key[1]: ` + keyHint + `"b*"`},
		"compression": {func(c *Config) { c.Compression = "Zstd" }, `compression: must be none, gzip, snappy, lz4 or zstd, not "Zstd"`},
		"timeout":     {func(c *Config) { c.Timeout = 0 }, "timeout: must be positive"},

		"partitioner":     {func(c *Config) { c.Partitioner = "random" }, `partitioner: must be murmur2 or roundRobin, not "random"`},
		"headers":         {func(c *Config) { c.Headers = []Header{{Name: "a", Value: "b"}, {Name: "a", Field: "b.c"}} }, ""},
		"no header value": {func(c *Config) { c.Headers = []Header{{Name: "b"}} }, "headers[0].value: is required, or field instead"},
		"header twice":    {func(c *Config) { c.Headers = []Header{{Name: "b", Value: "c", Field: "d"}} }, "headers[0].field: must not be set beside value"},
		"docket's header": {func(c *Config) { c.Headers = []Header{{Name: "docket-id", Value: "7"}} }, "headers[0].name: must not begin with docket-: docket sets those headers"},
		"many headers":    {func(c *Config) { c.Headers = slices.Repeat([]Header{{Name: "a", Value: "b"}}, 51) }, "headers: must be at most 50"},

		"scram without tls": {withSASL(ScramSHA512, "docket", "/s"), ""},
		"plain without tls": {withSASL(Plain, "docket", "/s"), "sasl.mechanism: PLAIN" + plaintextHint},
		"token without tls": {withSASL(OAuthBearer, "", "/s"), "sasl.mechanism: OAUTHBEARER" + plaintextHint},
		"plain over tls":    {func(c *Config) { withSASL(Plain, "docket", "/s")(c); c.TLS = &config.TLS{} }, ""},
		"plain on loopback": {func(c *Config) {
			withSASL(Plain, "docket", "/s")(c)
			c.Brokers = []string{"localhost:1", "127.0.0.1:1", "[::1]:1"}
		}, ""},
		"mechanism":        {withSASL("GSSAPI", "docket", "/s"), `sasl.mechanism: must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER, not "GSSAPI"`},
		"no user":          {withSASL(ScramSHA256, "", ""), "sasl.username: is required with SCRAM-SHA-256\nsasl.passwordFile: is required with SCRAM-SHA-256"},
		"user with token":  {func(c *Config) { withSASL(OAuthBearer, "docket", "/s")(c); c.TLS = &config.TLS{} }, "sasl.username: has no effect with OAUTHBEARER"},
		"token with scram": {func(c *Config) { withSASL(ScramSHA256, "docket", "/s")(c); c.SASL.TokenFile = "/t" }, "sasl.tokenFile: has no effect with SCRAM-SHA-256"},
		"all at once": {func(c *Config) { c.Brokers, c.Topic, c.Timeout = nil, "", -1 },
			"brokers: must name at least one broker, such as kafka-0:9092\ntopic: is required\ntimeout: must be positive"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Definition.NewConfig().(*Config)
			c.Brokers, c.Topic = []string{"kafka-0:9092"}, testTopic
			test.change(c)
			if got := c.Validate().Error(); got != test.want {
				t.Errorf("Validate = %q, want %q", got, test.want)
			}
		})
	}
}
