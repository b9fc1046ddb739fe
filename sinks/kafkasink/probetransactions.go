package kafkasink

import (
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/docket-export/docket/sinks"
)

// probeTransactions asks for all that transactions need, as id, which nobody has: an id that
// is given a producer would be taken from a docket that has it.
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
	if err := s.askTimeout(ctx, transactions); err != nil {
		return err
	}
	return s.askToRead(ctx)
}

// maxTransaction is the setting of a broker for the longest timeout of a transaction.
const maxTransaction = "transaction.max.timeout.ms"

// askTimeout asks the coordinator whether a transaction may have the timeout of this sink. That
// this client may not ask is no failure.
func (s *sink) askTimeout(ctx context.Context, coordinator int32) error {
	res, err := s.cluster.client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeBroker,
			ResourceName: strconv.Itoa(int(coordinator)),
			ConfigNames:  []string{maxTransaction},
		}},
	})
	if err != nil || len(res.Resources) != 1 {
		return ctx.Err()
	}
	for _, entry := range res.Resources[0].ConfigEntries {
		most, err := strconv.ParseInt(entry.ConfigValue, 10, 64)
		if err == nil && entry.ConfigName == maxTransaction && most < s.config.transactionTimeout().Milliseconds() {
			return s.failf(kafka.InvalidTransactionTimeout, "compare the timeout of a transaction with the brokers' %d ms", most)
		}
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

// askToRead asks for a record of the topic behind all others: to commit an offset of a topic takes
// the permission to read it. There is none there, which is the answer hoped for.
func (s *sink) askToRead(ctx context.Context) error {
	t := s.topic
	if len(t.partitions) == 0 {
		return nil // it is yet to be created
	}
	answer, err := s.cluster.exchange(ctx, &fetch.Request{
		ReplicaID:    -1,
		MaxBytes:     1,
		SessionEpoch: -1,
		Topics: []fetch.RequestTopic{{Topic: t.name, Partitions: []fetch.RequestPartition{{
			CurrentLeaderEpoch: -1,
			FetchOffset:        math.MaxInt64,
			LogStartOffset:     -1,
			PartitionMaxBytes:  1,
		}}}},
	})
	if err != nil {
		return s.failf(err, "ask whether topic %q can be read", t.name)
	}
	for _, topic := range answer.(*fetch.Response).Topics {
		for _, p := range topic.Partitions {
			switch code := kafka.Error(p.ErrorCode); code {
			case 0, kafka.OffsetOutOfRange:
			case kafka.TopicAuthorizationFailed:
				return sinks.Failf(sinks.Misconfigured, "ask whether topic %q can be read: %w: %s", t.name, code, permitToRead(t.name))
			default:
				return s.failf(code, "ask whether topic %q can be read", t.name)
			}
		}
	}
	return nil
}
