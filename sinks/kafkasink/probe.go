package kafkasink

import (
	"context"
	"errors"
	"math"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
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
	_, err = s.askProducer(ctx, s.topic.leaders[0])
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

// probeTransactions asks for all that transactions need, as id, which nobody has: an id that
// is given a producer would be taken from a docket that has it. Whether the client may read the
// topic, and how long a transaction may last, the sink learns when it is opened.
func (s *sink) probeTransactions(ctx context.Context, id string) error {
	group, err := s.cluster.coordinator(ctx, id, kafka.CoordinatorKeyTypeConsumer)
	if err != nil {
		return s.failf(err, "find the coordinator of group %q", id)
	}
	transactions, err := s.cluster.coordinator(ctx, id, kafka.CoordinatorKeyTypeTransaction)
	if err != nil {
		return s.failf(err, "find the coordinator of transactional id %q", id)
	}
	err = s.cluster.patiently(ctx, func() error {
		_, err := s.cluster.groupOffsets(ctx, group, id, s.topic.name, true)
		return err
	}, passing...)
	if err != nil {
		return s.failf(err, "read the position of group %q", id)
	}
	if err := s.askToTransact(ctx, transactions, id); err != nil {
		return s.failf(err, "ask whether transactional id %q can be used with a group of that name", id)
	}
	return nil
}

// askToTransact asks to make the group id part of a transaction of a producer that there is
// not. The coordinator looks at the permissions first, for both, so that it does not know the
// producer is the answer hoped for.
func (s *sink) askToTransact(ctx context.Context, coordinator int32, id string) error {
	err := s.cluster.patiently(ctx, func() error {
		answer, err := s.cluster.ask(ctx, coordinator, addOffsetsVersion, &addoffsetstotxn.Request{
			TransactionalID: id,
			ProducerID:      math.MaxInt64,
			GroupID:         id,
		})
		if err != nil {
			return err
		}
		return codeError(answer.(*addoffsetstotxn.Response).ErrorCode, "")
	}, passing...)
	if errors.Is(err, kafka.InvalidProducerIDMapping) {
		return nil
	}
	return err
}
