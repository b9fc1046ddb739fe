// Package kafkasink writes records to a Kafka topic.
//
// A record becomes one message: its bytes as they came are the value, and the
// headers docket-id, docket-seq, docket-source, docket-producer (when there is
// one) and docket-received (RFC 3339, UTC) say where it is from. Accepted means
// that all in-sync replicas have it (acks=all).
//
// The guarantee is at least once. Records of one partition are written in the
// order of their seq, one request at a time. When part of a batch is refused,
// the retry sends only the rest; but when an answer is lost, nobody knows
// whether the request was carried out, and it is sent again: the copy carries
// the same docket-id, and stands behind records that went with the first.
//
// A record that the brokers will never take is found and reported alone, while
// the others of its batch are written. Brokers take 1,048,588 bytes with key,
// headers and framing unless told otherwise (max.message.bytes of the topic), a
// little less than the largest record that docket takes in by default.
package kafkasink

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/sinks"
)

// maxInFlight bounds the requests under way, since kafka-go gives each a
// connection of its own, and a topic may have hundreds of partitions.
const maxInFlight = 16

// sink implements sinks.Sink. Its fields are owned by Send.
type sink struct {
	config   *Config
	codec    kafka.Compression
	cluster  *cluster
	encoder  encoder
	accepted accepted
	resumeAt time.Time // a broker has asked for a pause until then
}

func open(c *Config) (sinks.Sink, error) {
	codec, ok := c.codec()
	if !ok {
		return nil, fmt.Errorf("kafka.compression %q is unknown", c.Compression)
	}
	cluster, err := newCluster(c)
	if err != nil {
		return nil, err
	}
	return &sink{config: c, codec: codec, cluster: cluster}, nil
}

// Send implements sinks.Sink. It writes to all partitions at the same time.
func (s *sink) Send(ctx context.Context, b sinks.Batch) error {
	if pause := time.Until(s.resumeAt); pause > 0 {
		return &sinks.Failure{
			Kind:  sinks.Throttled,
			After: pause,
			Err:   fmt.Errorf("write to topic %q: a broker asked for a pause: the client's quota is used up", s.config.Topic),
		}
	}
	if err := s.renewCluster(); err != nil {
		return err
	}
	s.accepted.begin(b)
	partitions, err := s.partitions(ctx)
	if err != nil {
		return err
	}
	results := s.writeAll(ctx, s.shares(b, partitions))
	return s.conclude(ctx, b, results)
}

// renewCluster connects anew when the CA file has changed.
func (s *sink) renewCluster() error {
	if s.cluster.isCurrent() {
		return nil
	}
	renewed, err := newCluster(s.config)
	if err != nil {
		return sinks.Failf(sinks.Misconfigured, "connect anew because kafka.tls.caFile has changed: %w", err)
	}
	s.cluster.close()
	s.cluster = renewed
	return nil
}

// shares gives each of the partitions its records of b, those that have been
// accepted before excepted. A share may be empty.
func (s *sink) shares(b sinks.Batch, partitions []int) [][]record {
	shares := make([][]record, len(partitions)) // partitions are numbered from 0
	sticky := stickyPartition(b, partitions)
	s.encoder.reset(b)
	for i := range b.Items {
		if s.accepted.has(b.Items[i].Seq) {
			continue
		}
		r := s.encoder.record(b, i, s.config.Key)
		to := sticky
		if r.key != nil {
			to = partitionOf(r.key, partitions)
		}
		shares[to] = append(shares[to], r)
	}
	return shares
}

// writeAll writes every share to its partition and returns what became of each.
func (s *sink) writeAll(ctx context.Context, shares [][]record) []result {
	results := make([]result, len(shares))
	slots := make(chan struct{}, maxInFlight)
	var writers sync.WaitGroup
	for partition, share := range shares {
		if len(share) == 0 {
			continue
		}
		writers.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			w := writer{sink: s, partition: partition}
			w.write(ctx, share)
			results[partition] = w.result
		})
	}
	writers.Wait()
	return results
}

// conclude remembers what was accepted and says what became of b as a whole.
func (s *sink) conclude(ctx context.Context, b sinks.Batch, results []result) error {
	var all result
	for _, r := range results {
		all.merge(r)
	}
	for _, i := range all.accepted {
		s.accepted.add(b.Items[i].Seq)
	}
	if all.abandoned {
		s.encoder = encoder{} // a connection may still be reading the old one
	}
	if all.throttle > 0 {
		s.resumeAt = time.Now().Add(all.throttle)
	}
	if err := all.failure(ctx); err != nil {
		return err
	}
	s.accepted.forget(b)
	return nil
}

// Close implements sinks.Sink. It cuts connections on which a request that was
// given up is still under way.
func (s *sink) Close(context.Context) error {
	s.cluster.close()
	return nil
}
