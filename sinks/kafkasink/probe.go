package kafkasink

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/docket-export/docket/sinks"
)

// Probe implements sinks.Prober. It connects to every broker that leads a
// partition of the topic, and asks each whether it would take records, and
// one for a producer id unless that is not needed; with delivery: ExactlyOnce they are asked
// for what transactions need.
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
	if err := s.probe(ctx, found); err != nil || c.Idempotence == Off {
		return err
	}
	if c.Transacts() {
		return s.probeTransactions(ctx, "docket-check-"+env.Name)
	}
	_, err = s.askProducer(ctx)
	return err
}

func (s *sink) probe(ctx context.Context, m metadata.ResponseTopic) error {
	if err := s.look(m); err != nil {
		return err
	}
	s.learnLimits(ctx)
	asked := map[int32]bool{}
	for _, p := range m.Partitions {
		if asked[p.LeaderID] {
			continue
		}
		asked[p.LeaderID] = true
		if err := s.askToWrite(ctx, int(p.PartitionIndex)); err != nil {
			return s.failf(err, "ask whether records can be written to topic %q partition %d", s.topic.name, p.PartitionIndex)
		}
	}
	return nil
}

// askToWrite asks the leader of a partition to take no record at all. A broker
// looks at the permission first and then refuses the request for being empty, so
// such a refusal is the answer hoped for, and nothing is written.
func (s *sink) askToWrite(ctx context.Context, partition int) error {
	t := s.topic
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
