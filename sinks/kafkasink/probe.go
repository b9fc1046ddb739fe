package kafkasink

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/docket-export/docket/sinks"
)

// Probe implements sinks.Prober. It connects to every broker that leads a
// partition of one of the topics, and asks each whether it would take records, and
// one for a producer id unless that is not needed; with delivery: ExactlyOnce they are asked
// for what transactions need. A topic that is missing is not created: with createTopic the
// brokers are asked whether it could be.
func (c *Config) Probe(ctx context.Context, env sinks.Env) error {
	s, err := open(c, env.Log)
	if err != nil {
		return sinks.Failf(sinks.Misconfigured, "%w", err)
	}
	defer s.disconnect()
	found, err := s.learn(ctx)
	if err != nil {
		return err
	}
	var all []error
	for i, t := range s.topics {
		all = append(all, s.probe(ctx, t, found[i]))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := errors.Join(all...); err != nil || c.Idempotence == Off {
		return err
	}
	if c.Transacts() {
		return s.probeTransactions(ctx, "docket-check-"+env.Name)
	}
	_, err = s.askProducer(ctx)
	return err
}

func (s *sink) probe(ctx context.Context, t *topic, m metadata.ResponseTopic) error {
	missing, err := s.look(t, m)
	switch {
	case missing && s.config.CreateTopic:
		_, err := s.requestTopic(ctx, t, true)
		return err
	case err != nil:
		return err
	}
	s.learnLimits(ctx, t)
	asked := map[int32]bool{}
	for _, p := range m.Partitions {
		if asked[p.LeaderID] {
			continue
		}
		asked[p.LeaderID] = true
		if err := s.askToWrite(ctx, t, int(p.PartitionIndex)); err != nil {
			return s.failf(err, "ask whether records can be written to topic %q partition %d", t.name, p.PartitionIndex)
		}
	}
	return nil
}

// askToWrite asks the leader of a partition to take no record at all. A broker
// looks at the permission first and then refuses the request for being empty, so
// such a refusal is the answer hoped for, and nothing is written.
func (s *sink) askToWrite(ctx context.Context, t *topic, partition int) error {
	request := append(s.cluster.produceHead(t.name, partition, ""), 0, 0, 0, 0) // the length of the records
	answer, err := s.cluster.produce(ctx, &produceRequest{topic: t.name, partition: partition, bytes: request})
	switch {
	case err != nil:
		return err
	case errors.Is(answer.err, kafka.InvalidRecord), errors.Is(answer.err, kafka.InvalidMessage):
		return nil
	}
	return answer.err
}
