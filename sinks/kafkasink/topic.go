package kafkasink

import (
	"context"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/docket-export/docket/sinks"
)

// topic is what a sink knows of its topic.
type topic struct {
	name       string
	partitions []int // 0 and up, as a balancer takes them
	replicas   int   // of a partition

	maxBytes int      // of the records of one request, framing included
	asked    *cluster // that has been asked for maxBytes

	sequences []*sequence // of the partitions
	leaders   []int32     // of them

	warned bool // of what its settings mean for the records

	shares [][]record // for each partition, in the Send that is under way
}

// begin makes t ready for a Send.
func (t *topic) begin() {
	for i := range t.shares {
		t.shares[i] = t.shares[i][:0]
	}
}

// learn returns what the brokers say of the topic.
func (s *sink) learn(ctx context.Context) (metadata.ResponseTopic, error) {
	res, err := s.cluster.metadata(ctx, s.topic.name)
	if ctx.Err() != nil {
		return metadata.ResponseTopic{}, ctx.Err()
	}
	if err != nil {
		return metadata.ResponseTopic{}, s.failf(err, "ask the brokers for topic %q", s.topic.name)
	}
	return res.Topics[0], nil
}

// prepare makes the topic ready to be written to.
func (s *sink) prepare(ctx context.Context) error {
	found, err := s.learn(ctx)
	if err == nil {
		err = s.look(found)
	}
	if err != nil {
		return err
	}
	s.learnLimits(ctx)
	return nil
}

// look takes from m what the topic is.
func (s *sink) look(m metadata.ResponseTopic) error {
	t, code := s.topic, kafka.Error(m.ErrorCode)
	switch {
	case code == kafka.UnknownTopicOrPartition:
		// Brokers say the same of a topic that the client may not see.
		return sinks.Failf(sinks.Misconfigured,
			"topic %q does not exist on the brokers: create it or correct kafka.topic, or permit this client to describe it", t.name)
	case code != 0:
		return s.failf(code, "ask the brokers for topic %q", t.name)
	case m.IsInternal:
		return sinks.Failf(sinks.Misconfigured, "topic %q belongs to the brokers themselves: correct kafka.topic", t.name)
	case len(m.Partitions) == 0:
		return sinks.Failf(sinks.Transient, "topic %q has no partitions yet", t.name)
	}
	if len(t.partitions) != len(m.Partitions) {
		t.partitions = nil
		for i := range m.Partitions {
			t.partitions = append(t.partitions, i)
		}
	}
	for len(t.shares) < len(t.partitions) {
		t.shares = append(t.shares, nil)
		t.sequences = append(t.sequences, &sequence{producer: nobody})
	}
	t.leaders = t.leaders[:0]
	for i := range m.Partitions {
		t.leaders = append(t.leaders, m.Partitions[i].LeaderID)
	}
	t.replicas = len(m.Partitions[0].ReplicaNodes)
	return nil
}
