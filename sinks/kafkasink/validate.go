package kafkasink

import (
	"errors"
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

// topicPattern is the same in a schema.
const topicPattern = `[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}|\.[A-Za-z0-9_-][A-Za-z0-9._-]{0,247}|\.\.[A-Za-z0-9._-]{1,247}`

var topicShape = config.Matching(topicPattern)

// maxHeaders keeps the number of a record's headers, docket's own included, within
// one byte of the format.
const maxHeaders = 50

// reservedHeader begins the names of docket's own headers.
const reservedHeader = "docket-"

// Validate implements sinks.Config.
func (c *Config) Validate() config.Problems {
	p := config.Check(c)
	if c.SASL != nil && c.TLS == nil && c.SASL.Mechanism.showsSecret() && isRemote(c.Brokers) {
		p.Addf("sasl.mechanism", "%s would send the secret unencrypted: set tls, or use SCRAM-SHA-512; brokers on loopback addresses need neither", c.SASL.Mechanism)
	}
	return p
}

// Rules implements config.Ruled.
func (c *Config) Rules() []config.Rule {
	return []config.Rule{
		config.Required("brokers", "must name at least one broker, such as kafka-0:9092"),
		config.Each("brokers", checkBroker, `([^:/]+|\[[^\]/]+\]):0*[1-9][0-9]*`),
		config.Required("topic", "is required"),
		config.Text("topic", checkTopic, topicShape),
		config.Each("key", sinks.CheckField, sinks.FieldPattern),
		config.OneOf("partitioner", Murmur2, RoundRobin),
		config.AtMost("headers", maxHeaders),
		config.OneOf("delivery", AtLeastOnce, ExactlyOnce),
		config.Required("idempotence", "must be On or Off"),
		config.Text("idempotence", func(i Idempotence) error { return config.Choice(i, On, Off) }, config.Shape{}),
		config.Text("idempotence", checkIdempotentForOnce, config.Shape{"not": config.Shape{"enum": []any{string(Off), false, "false"}}}).When(config.Is("delivery", ExactlyOnce)),
		config.OneOf("compression", compressions...),
		config.Positive("timeout"),
	}
}

// Rules implements config.Ruled.
func (Header) Rules() []config.Rule {
	field, value := config.Set("field"), config.Set("value")
	return []config.Rule{
		config.Required("name", "is required"),
		config.Text("name", checkHeaderName, config.Shape{"not": config.Shape{"type": "string", "pattern": "^" + reservedHeader}}),
		config.Required("value", "is required, or field instead").When(field.Not()),
		config.Forbidden("field", "must not be set beside value").When(value),
		config.Text("field", sinks.CheckField, config.Matching(sinks.FieldPattern)),
	}
}

func checkHeaderName(name string) error {
	if strings.HasPrefix(name, reservedHeader) {
		return errors.New("must not begin with " + reservedHeader + ": docket sets those headers")
	}
	return nil
}

// Rules implements config.Ruled.
func (s SASL) Rules() []config.Rule {
	token, password := config.Is("mechanism", OAuthBearer), config.Is("mechanism", Plain, ScramSHA256, ScramSHA512)
	needed, refused := "is required with "+string(s.Mechanism), "has no effect with "+string(s.Mechanism)
	return []config.Rule{
		config.OneOf("mechanism", Plain, ScramSHA256, ScramSHA512, OAuthBearer),
		config.Required("tokenFile", needed).When(token),
		config.Forbidden("username", refused).When(token),
		config.Forbidden("passwordFile", refused).When(token),
		config.Required("username", needed).When(password),
		config.Required("passwordFile", needed).When(password),
		config.Forbidden("tokenFile", refused).When(password),
		config.Text("username", checkUsername, config.Shape{"pattern": `^[^\x00]*$`}),
	}
}

func checkIdempotentForOnce(i Idempotence) error {
	if i == Off {
		return errors.New("must be On with delivery: ExactlyOnce")
	}
	return nil
}

func checkUsername(name string) error {
	if strings.ContainsRune(name, 0) {
		return errors.New("must not contain a NUL") // which ends it in PLAIN
	}
	return nil
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
