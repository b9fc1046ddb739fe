// Package kafkasink writes records to a Kafka topic.
//
// A record becomes one message: its bytes as they came are the value, and the
// headers docket-id, docket-seq, docket-source, docket-producer (when there is
// one), docket-received (RFC 3339, UTC) and docket-late (Replayed or Redriven,
// when it may come after later records) say where it is from. Accepted means
// that all in-sync replicas have it (acks=all).
//
// The guarantee is at least once. Records of one partition are written in the
// order of their seq, one request at a time, and which partition that is depends
// on the record, its seq and the number of partitions alone. When part of a batch
// is refused, the retry sends only the rest; when an answer is lost, nobody knows
// whether the request was carried out, and it is sent again as it was. It has a
// producer id and sequence numbers, by which brokers store it once (sequence.go).
//
// The topic has a record twice when docket ends before it notes that the record was
// accepted, and, with kafka.idempotence: Off, when an answer is lost. It also has a
// record twice when a request cannot be sent again as it was, because partitions
// were added or other records come first. The copy carries the same docket-id.
//
// With delivery: ExactlyOnce a batch and the position behind it are a transaction, and a
// consumer that reads committed messages alone gets each record once (exactlyonce.go).
//
// A record that the brokers will never take is found and reported alone, while the others of its batch are
// written. Brokers take 1,048,588 bytes with key, headers and framing unless told
// otherwise (max.message.bytes of the topic, which the sink asks for), a little
// less than the largest record that docket takes in by default.
package kafkasink

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/sinks"
)

// sink implements sinks.Sink. Its fields are owned by Send.
type sink struct {
	config   *Config
	log      *slog.Logger
	codec    kafka.Compression
	cluster  *cluster // nil: the next Send connects
	topic    *topic
	encoder  encoder
	sets     sync.Pool // of *recordSet; used by the writers of a Send
	accepted accepted
	producer producer  // of partitions that have none yet; nobody: it is still to be asked for
	resumeAt time.Time // a broker has asked for a pause until then

	transactionalID string    // of the group that has the position, too; empty: no transactions
	began           time.Time // the last transaction
}

func open(c *Config, log *slog.Logger) (*sink, error) {
	codec := slices.Index(compressions, c.Compression)
	if codec < 0 {
		return nil, fmt.Errorf("kafka.compression %q is unknown", c.Compression)
	}
	if c.SASL != nil {
		if _, err := c.SASL.secretFile().Read(); err != nil {
			return nil, fmt.Errorf("kafka.sasl: %w", err)
		}
		if c.TLS == nil && isRemote(c.Brokers) {
			log.Warn("SASL without TLS: anybody on the network path can read the records, and try to guess the password; set kafka.tls")
		}
	}
	cluster, err := newCluster(c)
	if err != nil {
		return nil, err
	}
	t := &topic{name: c.Topic, maxBytes: defaultMaxBytes}
	return &sink{config: c, log: log, codec: kafka.Compression(codec), cluster: cluster, producer: nobody, topic: t, accepted: accepted{}}, nil
}

// Send implements sinks.Sink. It writes to all partitions at the same time.
func (s *sink) Send(ctx context.Context, b sinks.Batch) error {
	if len(b.Items) == 0 {
		return nil
	}
	if pause := time.Until(s.resumeAt); pause > 0 {
		return s.throttled(pause)
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	s.accepted.begin(b)
	if err := s.share(ctx, b, func(it *sinks.Item) bool { return s.accepted.has(b, it) }); err != nil {
		s.reconsider(err)
		return err
	}
	res := s.writeAll(ctx, b)
	s.reconsider(res.err) // also where the failure of Send is a rejection
	return s.conclude(ctx, b, res)
}

// throttled is the failure of a Send that comes too early for a broker.
func (s *sink) throttled(pause time.Duration) error {
	return &sinks.Failure{
		Kind:  sinks.Throttled,
		After: pause,
		Err:   fmt.Errorf("write to topic %q: the broker throttles this client: its quota is used up", s.topic.name),
	}
}

// connect makes a cluster when there is none, or when files have changed that
// its connections are made with. One that is used no longer makes room for another, while no
// request is under way.
func (s *sink) connect(ctx context.Context) error {
	if s.cluster != nil && s.cluster.version == s.config.filesVersion() {
		if !time.Now().Before(s.cluster.until) {
			s.replace(ctx)
		}
		return nil
	}
	renewed, err := newCluster(s.config)
	if err != nil {
		return sinks.Failf(sinks.Misconfigured, "connect to the brokers: %w", err)
	}
	s.disconnect()
	s.cluster = renewed
	return nil
}

// replace makes another cluster in place of one that is old or has failed: leaders may have moved,
// and connections may hang or lead to addresses of before. When the new one reaches no broker, what
// the old one knows may still do.
func (s *sink) replace(ctx context.Context) {
	s.cluster.until = sinks.ConnectionsUntil()
	renewed, err := newCluster(s.config)
	if err != nil {
		return
	}
	if _, err := renewed.metadata(ctx, s.topic.name); err != nil {
		renewed.close()
		return
	}
	s.disconnect()
	s.cluster = renewed
}

func (s *sink) disconnect() {
	if s.cluster != nil {
		s.cluster.close()
		s.cluster = nil
	}
}

// reconsider looks at what has failed in a Send. After trouble that may pass the next Send replaces
// the cluster. When a person must act, the cluster goes at once: its transport would go
// on to try a password that may be locked for it, and answer with what it found out before.
func (s *sink) reconsider(err error) {
	if err == nil || s.cluster == nil {
		return
	}
	switch sinks.FailureOf(err).Kind {
	case sinks.Misconfigured:
		s.disconnect()
	case sinks.Transient:
		s.cluster.until = time.Time{}
	}
}

// share gives each partition its records of b, except those that Kafka has.
func (s *sink) share(ctx context.Context, b sinks.Batch, has func(*sinks.Item) bool) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	t := s.topic
	t.begin()
	s.encoder.reset()
	for i := range b.Items {
		it := &b.Items[i]
		if has(it) {
			continue
		}
		r, key := s.encoder.record(b, i, s.config)
		partition := s.config.partition(key, it.Seq, t.partitions)
		t.shares[partition] = append(t.shares[partition], r)
	}
	return nil
}

// conclude remembers what was accepted and says what became of b as a whole.
func (s *sink) conclude(ctx context.Context, b sinks.Batch, all result) error {
	if all.throttle > 0 {
		s.resumeAt = time.Now().Add(all.throttle)
	}
	err := all.failure(ctx)
	if err == nil {
		s.accepted.forget(b)
		return nil
	}
	for _, i := range all.accepted {
		s.accepted.add(b, &b.Items[i])
	}
	return err
}

// Close implements sinks.Sink. It cuts connections on which a request that was
// given up is still under way.
func (s *sink) Close(context.Context) error {
	s.disconnect()
	return nil
}
