package kafkasink

import (
	"context"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Definition describes the kafka sink. Its batches are some four requests of what
// brokers take by default, so that the partitions of a topic are written at once with
// full requests; a larger share of a batch is sent in several.
var Definition = sinks.Definition{
	Kind: "kafka",
	Batch: sinks.BatchLimits{
		MaxRecords: 4000,
		MaxBytes:   3200 << 10,
		MaxWait:    config.Duration(100 * time.Millisecond),
	},
	NewConfig: func() sinks.Config { return defaultConfig() },
	Sample: `# A topic of Kafka.
- name: NAME
  #when: record.enforcementAction == "deny"   # only these records; without it, all
  kafka:
    brokers: [kafka-0.example.com:9092]   # CHANGE: some brokers; the others are found through them
    topic: decisions                      # CHANGE: a topic that exists
    #key: [normalized.resource.namespace, normalized.resource.name]   # order is kept for equal keys
    #compression: zstd
    #tls: {caFile: /etc/docket/kafka-ca.crt}
    #sasl: {mechanism: SCRAM-SHA-512, username: docket, passwordFile: /var/run/secrets/kafka/password}
`,
}

// Config says to which topic records are written, and how.
type Config struct {
	// Brokers are the host:port addresses asked first; the others of the
	// cluster are found through them.
	Brokers []string `yaml:"brokers"`
	// Topic takes every record.
	Topic string `yaml:"topic"`
	// Key lists fields of the record, as names joined by dots
	// ("resourceNamespace", "object.kind"), or of its normalized form
	// ("normalized.resource.namespace"). The record's key is their values
	// joined by "/"; a field that is missing or null gives an empty part. A
	// record that has none of the fields, or a sink without this list, writes
	// no key.
	Key []string `yaml:"key"`
	// Partitioner chooses the partition of a record: murmur2 or roundRobin.
	Partitioner Partitioner `yaml:"partitioner"`
	// Headers are added to each message, behind those of docket.
	Headers []Header `yaml:"headers"`
	// Delivery is AtLeastOnce or ExactlyOnce. With ExactlyOnce a batch and the
	// sink's position behind it are one transaction: consumers that read
	// committed messages alone get each record once. The position is the offset of
	// the group docket-QUEUE-SINK, which is the transactional id too: QUEUE is the
	// id of the queue and SINK the name of the sink.
	Delivery Delivery `yaml:"delivery"`
	// Idempotence is On or Off. With On brokers give the sink a producer id and
	// store a request that is repeated once. They permit that to a client that may
	// write to a topic, and before Kafka 2.8 to one with IdempotentWrite on the
	// cluster. With Off the topic has records twice when an answer was lost.
	Idempotence Idempotence `yaml:"idempotence"`
	// Compression is none, gzip, snappy, lz4 or zstd.
	Compression string `yaml:"compression"`
	// Timeout bounds one request to a broker. Half of it is what a broker may
	// spend on waiting for its replicas.
	Timeout config.Duration `yaml:"timeout"`
	// TLS switches TLS on. Without it the connection is plain text.
	TLS *config.TLS `yaml:"tls"`
	// SASL says how to authenticate. Without it a client has no name, or that
	// of its certificate.
	SASL *SASL `yaml:"sasl"`
	// ClientID is how brokers name this sink in their logs and quotas.
	ClientID string `yaml:"clientID"`
}

// FormerKeys implements config.Reduced.
func (Config) FormerKeys() map[string]string {
	const create = "docket no longer creates topics: create the topic with kafka-topics.sh or your operator, then remove this key"
	return map[string]string{
		"topicFrom":         "a sink writes to one topic: use a sink for each topic, with topic and when",
		"createTopic":       create,
		"partitions":        create,
		"replicationFactor": create,
		"minInSyncReplicas": create,
		"partitionField":    "records no longer name their partition: set key, or partitioner: roundRobin",
	}
}

// Header is one header of every message.
type Header struct {
	Name string `yaml:"name"`
	// Value is the header's value.
	Value string `yaml:"value"`
	// Field, instead of Value, is the field of the record that has the value, as
	// in Config.Key. A record without the field gets no header.
	Field string `yaml:"field"`
}

// SASL is how a client authenticates. The files are read for each connection,
// and connections are made anew when they change.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
	Mechanism Mechanism `yaml:"mechanism"`
	// Username goes with every mechanism but OAUTHBEARER.
	Username string `yaml:"username"`
	// PasswordFile holds the password that goes with Username.
	PasswordFile config.SecretFile `yaml:"passwordFile"`
	// TokenFile holds the token of OAUTHBEARER.
	TokenFile config.SecretFile `yaml:"tokenFile"`
}

// Idempotence says whether brokers recognise a request that is repeated.
type Idempotence string

// The choices of Idempotence.
const (
	On  Idempotence = "On"
	Off Idempotence = "Off"
)

// UnmarshalText implements encoding.TextUnmarshaler. On and Off are booleans in the YAML
// before 1.2, which Helm writes.
func (i *Idempotence) UnmarshalText(text []byte) error {
	switch *i = Idempotence(text); *i {
	case "true":
		*i = On
	case "false":
		*i = Off
	}
	return nil
}

// Delivery says how often a consumer may see a record.
type Delivery string

// The choices of Delivery.
const (
	AtLeastOnce Delivery = "AtLeastOnce"
	ExactlyOnce Delivery = "ExactlyOnce"
)

func defaultConfig() *Config {
	return &Config{
		Delivery:    AtLeastOnce,
		Partitioner: Murmur2,
		Idempotence: On,
		Compression: "none",
		Timeout:     config.Duration(10 * time.Second),
		ClientID:    "docket",
	}
}

// compressions are the choices of Config.Compression. The place of each is its number in the
// format of Kafka, and in kafka-go.
var compressions = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// Open implements sinks.Config. It fails when a file of TLS or SASL cannot be
// read.
func (c *Config) Open(_ context.Context, env sinks.Env) (sinks.Sink, error) {
	s, err := open(c, env.Log)
	if err != nil || !c.Transacts() {
		return s, err
	}
	return newExactlyOnce(s, env), nil
}

// Transacts implements sinks.Transacting.
func (c *Config) Transacts() bool { return c.Delivery == ExactlyOnce }

// Gather implements sinks.Gatherer. A transaction costs as much time as some thousand
// records, so twice the default batch takes a quarter more with it than without.
func (c *Config) Gather(configured sinks.BatchLimits) sinks.BatchLimits {
	if c.Transacts() {
		configured.MaxRecords = max(configured.MaxRecords, 2*Definition.Batch.MaxRecords)
		configured.MaxBytes = max(configured.MaxBytes, 2*Definition.Batch.MaxBytes)
	}
	return configured
}

// transactionTimeout is how long a transaction may last before its coordinator aborts it:
// longer than one may take here, and no longer than brokers permit by default.
func (c *Config) transactionTimeout() time.Duration {
	return min(max(time.Minute, 6*time.Duration(c.Timeout)), 15*time.Minute)
}
