package kafkasink

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
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
	p.Refuse(len(c.Brokers) == 0, "brokers", "must name at least one broker, such as kafka-0:9092")
	p = append(p, config.Each("brokers", c.Brokers, checkBroker)...)
	p.Check("topic", config.Required(c.Topic, "is required"), checkTopic(c.Topic))
	p = append(p, config.Each("key", c.Key, sinks.CheckField)...)
	p.Check("partitioner", config.Choice(c.Partitioner, Murmur2, RoundRobin))
	p.Refuse(len(c.Headers) > maxHeaders, "headers", "must be at most %d", maxHeaders)
	for i, h := range c.Headers {
		p = append(p, h.validate().In(fmt.Sprintf("headers[%d]", i))...)
	}
	p.Check("delivery", config.Choice(c.Delivery, AtLeastOnce, ExactlyOnce))
	p.Check("idempotence", config.Choice(c.Idempotence, On, Off))
	p.Refuse(c.Idempotence == Off && c.Delivery == ExactlyOnce, "idempotence", "must be On with delivery: ExactlyOnce")
	p.Check("compression", config.Choice(c.Compression, compressions...))
	p.Check("timeout", config.Positive(c.Timeout))
	p = append(p, c.TLS.Validate().In("tls")...)
	if c.SASL == nil {
		return p
	}
	p = append(p, c.SASL.validate().In("sasl")...)
	if c.TLS == nil && c.SASL.Mechanism.showsSecret() && isRemote(c.Brokers) {
		p.Addf("sasl.mechanism", "%s would send the secret unencrypted: set tls, or use SCRAM-SHA-512; brokers on loopback addresses need neither", c.SASL.Mechanism)
	}
	return p
}

func (h Header) validate() config.Problems {
	var p config.Problems
	p.Check("name", config.Required(h.Name, "is required"))
	p.Refuse(strings.HasPrefix(h.Name, reservedHeader), "name", "must not begin with "+reservedHeader+": docket sets those headers")
	switch {
	case h.Value == "" && h.Field == "":
		p.Addf("value", "is required, or field instead")
	case h.Value != "" && h.Field != "":
		p.Addf("field", "must not be set beside value")
	case h.Field != "":
		p.Check("field", sinks.CheckField(h.Field))
	}
	return p
}

func (s *SASL) validate() config.Problems {
	var p config.Problems
	given := map[string]bool{"username": s.Username != "", "passwordFile": s.PasswordFile != "", "tokenFile": s.TokenFile != ""}
	needed, useless := []string{"username", "passwordFile"}, []string{"tokenFile"}
	switch err := config.Choice(s.Mechanism, Plain, ScramSHA256, ScramSHA512, OAuthBearer); {
	case err != nil:
		p.Check("mechanism", err)
		return p
	case s.Mechanism == OAuthBearer:
		needed, useless = useless, needed
	}
	for _, key := range needed {
		p.Refuse(!given[key], key, "is required with %s", s.Mechanism)
	}
	for _, key := range useless {
		p.Refuse(given[key], key, "has no effect with %s", s.Mechanism)
	}
	p.Refuse(strings.ContainsRune(s.Username, 0), "username", "must not contain a NUL") // which ends it in PLAIN
	return p
}

func checkBroker(address string) error {
	host, port, err := net.SplitHostPort(address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n == 0 || host == "" || strings.Contains(host, "/") {
		return fmt.Errorf("must be host:port, such as kafka-0:9092, not %q", address)
	}
	return nil
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
