package kafkasink

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Definition describes the kafka sink. Its batches suit one request to one
// partition; a batch configured larger is sent in several.
var Definition = sinks.Definition{
	Kind: "kafka",
	Batch: sinks.BatchLimits{
		MaxRecords: 1000,
		MaxBytes:   maxRequest,
		MaxWait:    config.Duration(100 * time.Millisecond),
	},
	NewConfig: func() sinks.Config { return defaultConfig() },
}

// Config says to which topic records are written, and how.
type Config struct {
	// Brokers are the host:port addresses asked first; the others of the
	// cluster are found through them.
	Brokers []string `yaml:"brokers"`
	// Topic takes every record. It must exist: docket does not create it.
	Topic string `yaml:"topic"`
	// Key lists fields of the record, as names joined by dots
	// ("resourceNamespace", "object.kind"). The record's key is their values
	// joined by "/", and decides its partition as the Java client does; a field
	// that is missing or null gives an empty part. A record that has none of
	// the fields, or a sink without this list, writes no key, and such records
	// of a batch share a partition.
	Key []string `yaml:"key"`
	// Compression is none, gzip, snappy, lz4 or zstd.
	Compression string `yaml:"compression"`
	// Timeout bounds one request to a broker. Half of it is what a broker may
	// spend on waiting for its replicas.
	Timeout config.Duration `yaml:"timeout"`
	// TLS switches TLS on. Without it the connection is plain text.
	TLS *config.TLS `yaml:"tls"`
	// ClientID is how brokers name this sink in their logs and quotas.
	ClientID string `yaml:"clientID"`
}

func defaultConfig() *Config {
	return &Config{
		Compression: "none",
		Timeout:     config.Duration(10 * time.Second),
		ClientID:    "docket",
	}
}

// The brokers' own limits for a topic's name.
const (
	maxTopicName   = 249
	topicNameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)

// compressions are the choices of Config.Compression in the order in which
// messages name them.
var compressions = []struct {
	name  string
	codec kafka.Compression
}{
	{"none", 0},
	{"gzip", kafka.Gzip},
	{"snappy", kafka.Snappy},
	{"lz4", kafka.Lz4},
	{"zstd", kafka.Zstd},
}

// codec returns the configured compression, false if there is no such.
func (c *Config) codec() (kafka.Compression, bool) {
	for _, known := range compressions {
		if known.name == c.Compression {
			return known.codec, true
		}
	}
	return 0, false
}

// Validate implements sinks.Config.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	if len(c.Brokers) == 0 {
		p.Addf("brokers", "must name at least one broker, such as kafka-0:9092")
	}
	for i, address := range c.Brokers {
		if !isHostPort(address) {
			p.Addf("brokers["+strconv.Itoa(i)+"]", "must be host:port, such as kafka-0:9092, not %q", address)
		}
	}
	if c.Topic == "" {
		p.Addf("topic", "is required")
	} else if !isTopicName(c.Topic) {
		p.Addf("topic", "must be at most %d letters, digits, dots, underscores and hyphens, not %q", maxTopicName, c.Topic)
	}
	for i, path := range c.Key {
		if !isFieldPath(path) {
			p.Addf("key["+strconv.Itoa(i)+"]", "must be field names joined by dots, such as object.kind, not %q", path)
		}
	}
	if _, ok := c.codec(); !ok {
		p.Addf("compression", "must be none, gzip, snappy, lz4 or zstd, not %q", c.Compression)
	}
	if c.Timeout <= 0 {
		p.Addf("timeout", "must be positive")
	}
	if c.TLS != nil {
		p = append(p, c.TLS.Validate().In("tls")...)
	}
	return p
}

func isHostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.Contains(host, "/") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func isTopicName(topic string) bool {
	return len(topic) <= maxTopicName && topic != "." && topic != ".." &&
		strings.Trim(topic, topicNameChars) == ""
}

// isFieldPath refuses everything that gjson would take for more than a name:
// a wildcard, query, modifier or escape would make a key nobody expects.
func isFieldPath(path string) bool {
	return !slices.Contains(strings.Split(path, "."), "") && !strings.ContainsAny(path, `*?|#@!\"(){}[]<>=%~`)
}

// Open implements sinks.Config. It fails when a TLS file cannot be read.
func (c *Config) Open(_ context.Context, _ sinks.Env) (sinks.Sink, error) {
	return open(c)
}
