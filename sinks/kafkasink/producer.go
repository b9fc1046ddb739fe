package kafkasink

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/sinks"
)

// producer is the writer of a record batch as brokers know it: an id that one of them
// has given out, and its epoch. They tell a batch that they have from a new one by the
// producer and the number of its first record.
type producer struct {
	id    int64
	epoch int16
}

// nobody is the producer of a batch without sequence numbers, whose first one is -1.
var nobody = producer{id: -1, epoch: -1}

// identify has the records of every writer numbered: by the producer that has numbered
// those of its partition before, or by a new one where that cannot go on. Writers for
// which the brokers give none out fail.
func (s *sink) identify(ctx context.Context, b sinks.Batch, writers []*writer) {
	if s.config.Idempotence == Off {
		return
	}
	var err error
	for _, w := range writers {
		q := w.sequence
		if !q.continues(b, w.share) {
			s.dropProducer(w)
		}
		if q.producer != nobody {
			continue
		}
		if s.producer == nobody && err == nil {
			s.producer, err = s.askProducer(ctx, s.topic.leaders[w.partition])
		}
		if err != nil {
			w.result.err = err
			continue
		}
		q.begin(s.producer)
	}
}

// dropProducer has the producer of a partition write no more to it. The others that it has
// written to are as they were, and keep it.
func (s *sink) dropProducer(w *writer) {
	q := w.sequence
	if len(q.lost) > 0 {
		s.log.Warn("a request got no answer, and its records are now sent in other batches: the topic may have them twice",
			"topic", w.sink.topic.name, "partition", w.partition, "records", len(q.lost))
	}
	if s.producer == q.producer {
		s.producer = nobody
	}
	q.begin(nobody)
}

// noneYet are the codes of a broker that has no id to give out for some milliseconds: it has
// just started, and gets them from the controller. Which of them it is says nothing to a
// client without transactions.
var noneYet = []kafka.Error{kafka.GroupLoadInProgress, kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup}

// askProducer has a broker give out an id.
func (s *sink) askProducer(ctx context.Context, broker int32) (producer, error) {
	p, err := s.cluster.initProducer(ctx, broker, "", 0, noneYet...)
	if err == nil {
		return p, nil
	}
	if ctx.Err() != nil {
		return nobody, ctx.Err()
	}
	const asked = "ask the brokers for a producer id"
	if hint := refusesProducers(err); hint != "" {
		return nobody, sinks.Failf(sinks.Misconfigured, "%s: %w: %s", asked, err, hint)
	}
	return nobody, s.failf(err, asked)
}

// refusesProducers says what an operator is to do when err is that of brokers which will
// never give out an id.
func refusesProducers(err error) string {
	var code kafka.Error
	if !errors.As(err, &code) {
		return ""
	}
	switch code {
	case kafka.ClusterAuthorizationFailed, kafka.TransactionalIDAuthorizationFailed:
		return "permit this client to write to the topic, and IdempotentWrite on the cluster (required by brokers before Kafka 2.8), or set kafka.idempotence: Off"
	case kafka.UnsupportedVersion, kafka.InvalidRequest:
		return "set kafka.idempotence: Off for brokers without idempotent producers"
	}
	return ""
}
