package kafkasink

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/decision"
)

// The brokers' own limits for a topic's name.
const (
	maxTopicName   = 249
	topicNameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)

// maxHeaders keeps the number of a record's headers, docket's own included, within
// one byte of the format.
const maxHeaders = 50

// reservedHeader begins the names of docket's own headers.
const reservedHeader = "docket-"

// Validate implements sinks.Config.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	if len(c.Brokers) == 0 {
		p.Addf("brokers", "must name at least one broker, such as kafka-0:9092")
	}
	for i, address := range c.Brokers {
		if !isHostPort(address) {
			p.Addf(item("brokers", i), "must be host:port, such as kafka-0:9092, not %q", address)
		}
	}
	c.validateTopic(&p)
	c.validateCreation(&p)
	for i, path := range c.Key {
		p.Check(item("key", i), checkField(path))
	}
	c.validatePartitioner(&p)
	if len(c.Headers) > maxHeaders {
		p.Addf("headers", "must be at most %d", maxHeaders)
	}
	for i, h := range c.Headers {
		p = append(p, h.validate().In(item("headers", i))...)
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
	if c.SASL != nil {
		p = append(p, c.SASL.validate(c.TLS == nil, c.Brokers).In("sasl")...)
	}
	return p
}

func (c *Config) validateTopic(p *config.Problems) {
	switch {
	case c.TopicFrom != nil:
		if c.Topic != "" {
			p.Addf("topic", "must not be set beside topicFrom: name it as topicFrom.default")
		}
		*p = append(*p, c.TopicFrom.validate().In("topicFrom")...)
	case c.Topic == "":
		p.Addf("topic", "is required")
	default:
		p.Check("topic", checkTopic(c.Topic))
	}
}

func (t *TopicFrom) validate() config.Problems {
	var p config.Problems
	p.Check("field", checkField(t.Field))
	if len(t.Allow) == 0 {
		p.Addf("allow", "must list the topics that records may go to")
	}
	for i, name := range t.Allow {
		p.Check(item("allow", i), checkTopic(name))
	}
	if t.Default != "" {
		p.Check("default", checkTopic(t.Default))
	}
	return p
}

func (c *Config) validateCreation(p *config.Problems) {
	for _, number := range []struct {
		key   string
		value int
	}{
		{"partitions", c.Partitions},
		{"replicationFactor", c.ReplicationFactor},
		{"minInSyncReplicas", c.MinInSyncReplicas},
	} {
		switch {
		case number.value < 0 || c.CreateTopic && number.value == 0:
			p.Addf(number.key, "must be at least 1, with createTopic")
		case !c.CreateTopic && number.value > 0:
			p.Addf(number.key, "has no effect: docket leaves topics as they are, and makes one only with createTopic: true")
		}
	}
	if c.CreateTopic && c.MinInSyncReplicas > c.ReplicationFactor {
		p.Addf("minInSyncReplicas", "must not exceed replicationFactor: nothing could ever be written")
	}
}

func (c *Config) validatePartitioner(p *config.Problems) {
	p.Check("partitioner", config.Choice(c.Partitioner, Murmur2, RoundRobin, Manual))
	switch {
	case c.Partitioner == Manual:
		p.Check("partitionField", checkField(c.PartitionField))
		if strings.HasPrefix(c.PartitionField, decision.NormalizedPrefix) {
			p.Addf("partitionField", "must be a field of the record: none of the normalized form is a number")
		}
	case c.PartitionField != "":
		p.Addf("partitionField", "has no effect: set partitioner: manual")
	}
}

func (h Header) validate() config.Problems {
	var p config.Problems
	switch {
	case h.Name == "":
		p.Addf("name", "is required")
	case strings.HasPrefix(h.Name, reservedHeader):
		p.Addf("name", "must not begin with %s: those are docket's own", reservedHeader)
	}
	switch {
	case h.Field == "" && h.Value == "":
		p.Addf("value", "is required, or field in its place")
	case h.Field != "" && h.Value != "":
		p.Addf("field", "must not be set beside value")
	case h.Field != "":
		p.Check("field", checkField(h.Field))
	}
	return p
}

// validate gets whether connections are plain text.
func (s *SASL) validate(plaintext bool, brokers []string) config.Problems {
	var p config.Problems
	if err := config.Choice(s.Mechanism, Plain, ScramSHA256, ScramSHA512, OAuthBearer); err != nil {
		p.Check("mechanism", err)
		return p // what else is needed depends on it
	}
	if plaintext && isRemote(brokers) && s.Mechanism.showsSecret() {
		p.Addf("mechanism", "%s shows the secret to the network: set tls as well, or use SCRAM-SHA-512; only brokers on loopback addresses go without", s.Mechanism)
	}
	if s.Mechanism == OAuthBearer {
		needs(&p, "tokenFile", string(s.TokenFile), s.Mechanism)
		refuses(&p, "username", s.Username, s.Mechanism)
		refuses(&p, "passwordFile", string(s.PasswordFile), s.Mechanism)
		return p
	}
	needs(&p, "username", s.Username, s.Mechanism)
	needs(&p, "passwordFile", string(s.PasswordFile), s.Mechanism)
	refuses(&p, "tokenFile", string(s.TokenFile), s.Mechanism)
	if strings.ContainsRune(s.Username, 0) {
		p.Addf("username", "must not have a NUL in it") // which ends it in PLAIN
	}
	return p
}

func needs(p *config.Problems, key, value string, m Mechanism) {
	if value == "" {
		p.Addf(key, "is required with %s", m)
	}
}

func refuses(p *config.Problems, key, value string, m Mechanism) {
	if value != "" {
		p.Addf(key, "has no place in %s", m)
	}
}

func item(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

func isHostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.Contains(host, "/") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// isRemote says whether the way to one of addresses leaves this machine.
func isRemote(addresses []string) bool {
	return slices.ContainsFunc(addresses, func(address string) bool { return !config.Loopback(address) })
}

func checkTopic(name string) error {
	if name == "" || len(name) > maxTopicName || name == "." || name == ".." || strings.Trim(name, topicNameChars) != "" {
		return fmt.Errorf("must be at most %d letters, digits, dots, underscores and hyphens, not %q", maxTopicName, name)
	}
	return nil
}
