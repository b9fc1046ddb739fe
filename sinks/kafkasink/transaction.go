package kafkasink

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"
)

// session is the right to write in transactions until somebody begins another. It keeps to
// the two coordinators that it has begun with: what one of them answered may be out of date
// where another has taken its place, so a session ends with it.
type session struct {
	id       string // of the transactions, and of the group that has the position
	producer producer
	transact int32 // the coordinator of the transactions
	group    int32 // that of the group
}

// The versions of the requests, which every broker has that has transactions.
const (
	initVersion          = 1
	addPartitionsVersion = 1
	addOffsetsVersion    = 1
	commitOffsetsVersion = 2
	endVersion           = 1
)

// passing are the codes of a coordinator that is not ready yet: it is ending the
// transaction before, or has just become the coordinator.
var passing = []kafka.Error{kafka.ConcurrentTransactions, kafka.GroupLoadInProgress, kafka.UnstableOffsetCommit}

// initProducer fences the producers of id before, and ends what they have left open. A
// transaction is aborted by its coordinator when it lasts longer than timeout. Without an id
// any broker gives out a producer without transactions. An answer with one of passing is none.
func (k *cluster) initProducer(ctx context.Context, node int32, id string, timeout time.Duration, passing ...kafka.Error) (p producer, err error) {
	err = k.patiently(ctx, func() error {
		answer, err := k.ask(ctx, node, initVersion, &initproducerid.Request{
			TransactionalID:      id,
			TransactionTimeoutMs: int32(timeout.Milliseconds()),
		})
		if err != nil {
			return err
		}
		res := answer.(*initproducerid.Response)
		p = producer{id: res.ProducerID, epoch: res.ProducerEpoch}
		return codeError(res.ErrorCode, "")
	}, passing...)
	return p, err
}

// addPartitions begins a transaction, which is going to write to these partitions of topic.
func (k *cluster) addPartitions(ctx context.Context, s *session, topic string, partitions []int32) error {
	return k.patiently(ctx, func() error {
		answer, err := k.ask(ctx, s.transact, addPartitionsVersion, &addpartitionstotxn.Request{
			TransactionalID: s.id,
			ProducerID:      s.producer.id,
			ProducerEpoch:   s.producer.epoch,
			Topics:          []addpartitionstotxn.RequestTopic{{Name: topic, Partitions: partitions}},
		})
		if err != nil {
			return err
		}
		return partitionsError(answer.(*addpartitionstotxn.Response))
	}, passing...)
}

// partitionsError is the error of an answer about all partitions. Those that are not the
// reason have one that says just that.
func partitionsError(answer *addpartitionstotxn.Response) error {
	const notAttempted = 55
	var err error
	for _, t := range answer.Results {
		for _, p := range t.Results {
			if p.ErrorCode != 0 && (err == nil || errors.Is(err, kafka.Error(notAttempted))) {
				err = kafka.Error(p.ErrorCode)
			}
		}
	}
	return err
}

// commitOffset makes c the group's offset for partition 0 of topic when the transaction is
// committed.
func (k *cluster) commitOffset(ctx context.Context, s *session, topic string, c *committed) error {
	err := k.patiently(ctx, func() error {
		answer, err := k.ask(ctx, s.transact, addOffsetsVersion, &addoffsetstotxn.Request{
			TransactionalID: s.id,
			ProducerID:      s.producer.id,
			ProducerEpoch:   s.producer.epoch,
			GroupID:         s.id,
		})
		if err != nil {
			return err
		}
		return codeError(answer.(*addoffsetstotxn.Response).ErrorCode, "")
	}, passing...)
	if err != nil {
		return err
	}
	return k.patiently(ctx, func() error {
		answer, err := k.ask(ctx, s.group, commitOffsetsVersion, &txnoffsetcommit.Request{
			TransactionalID: s.id,
			GroupID:         s.id,
			ProducerID:      s.producer.id,
			ProducerEpoch:   s.producer.epoch,
			Topics: []txnoffsetcommit.RequestTopic{{
				Name: topic,
				Partitions: []txnoffsetcommit.RequestPartition{{
					CommittedOffset:      int64(c.Next),
					CommittedLeaderEpoch: -1,
					CommittedMetadata:    c.metadata(),
				}},
			}},
		})
		if err != nil {
			return err
		}
		for _, t := range answer.(*txnoffsetcommit.Response).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return kafka.Error(p.ErrorCode)
				}
			}
		}
		return nil
	}, passing...)
}

// end commits the transaction, or aborts it. It makes one attempt.
func (k *cluster) end(ctx context.Context, s *session, commit bool) error {
	answer, err := k.ask(ctx, s.transact, endVersion, &endtxn.Request{
		TransactionalID: s.id,
		ProducerID:      s.producer.id,
		ProducerEpoch:   s.producer.epoch,
		Committed:       commit,
	})
	if err != nil {
		return err
	}
	return codeError(answer.(*endtxn.Response).ErrorCode, "")
}
