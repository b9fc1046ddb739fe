package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/sinks"
)

// maxInFlight bounds the requests under way, since kafka-go gives each a
// connection of its own, and a topic may have hundreds of partitions.
const maxInFlight = 16

// writeAll writes the shares of b to their partitions and returns what became of all.
func (s *sink) writeAll(ctx context.Context, b sinks.Batch) result {
	var all []*writer
	t := s.topic
	for partition, share := range t.shares {
		if len(share) > 0 {
			all = append(all, &writer{sink: s, batch: b, partition: partition, share: share, sequence: t.sequences[partition]})
		}
	}
	s.identify(ctx, b, all)
	s.takeTurns(all)
	slots := make(chan struct{}, maxInFlight)
	lastStart := time.Now().Add(time.Duration(s.config.Timeout))
	var writers sync.WaitGroup
	for _, w := range all {
		if w.result.err != nil {
			continue
		}
		slots <- struct{}{}
		w.lastStart = lastStart
		writers.Go(func() {
			defer func() { <-slots }()
			w.write(ctx)
		})
	}
	writers.Wait()

	var res result
	for _, w := range all {
		res.merge(w.result)
	}
	return res
}

// turn is of the writers to one broker, for their first requests in a transaction.
type turn struct {
	sync.Mutex
	failed error // why the broker took none; the transaction is lost with it. Guarded by the Mutex
}

// takeTurns gives the writers to one broker a turn in common, when there is a transaction.
func (s *sink) takeTurns(writers []*writer) {
	if !s.inTransactions() {
		return
	}
	turns := map[int32]*turn{}
	for _, w := range writers {
		leader := w.sink.topic.leaders[w.partition]
		if turns[leader] == nil {
			turns[leader] = &turn{}
		}
		w.turn = turns[leader]
	}
}

// writer writes one share of a batch to its partition, one request after the
// other, so that a record never overtakes an earlier one.
type writer struct {
	sink      *sink
	batch     sinks.Batch
	partition int
	share     []record  // of batch
	sequence  *sequence // which share continues
	result    result

	// No request begins later, so that brokers which all hang hold up a Send for the time of two
	// requests. A transaction has a timeout of its own.
	lastStart time.Time

	turn     *turn // of the leader of the partition; nil: there is no transaction
	verified bool  // the leader knows that the partition is part of the transaction
}

// write stops at the first request that fails for a reason that is not in its
// records. A request that got no answer is made again before all others, as it was.
func (w *writer) write(ctx context.Context) {
	again, share := w.share[:len(w.sequence.lost)], w.share[len(w.sequence.lost):]
	if len(again) > 0 {
		w.request(ctx, again)
	}
	for _, run := range requests(share, w.sink.topic.room()) {
		if w.result.err != nil {
			return
		}
		w.request(ctx, run)
	}
}

// request writes records with one request. Refused for one of them, it halves
// the request until the culprit is alone.
func (w *writer) request(ctx context.Context, records []record) {
	if w.turn == nil && time.Now().After(w.lastStart) {
		w.result.err = w.failf(fmt.Errorf("earlier requests took %s", w.sink.config.Timeout))
		return
	}
	if pause := w.result.throttle; pause > 0 { // another request would be left waiting
		if !w.sink.pauseInside(ctx, pause) {
			w.result.err = w.sink.throttled(pause)
			return
		}
		w.result.throttle = 0
	}
	err := w.sequence.settle(w.batch, records, w.produce(ctx, records))
	switch {
	case err == nil:
		w.result.accepted = slices.Grow(w.result.accepted, len(records))
		for i := range records {
			w.result.accepted = append(w.result.accepted, records[i].item)
		}
	case !isRefusal(err):
		w.result.err = w.failf(err)
	case len(records) == 1:
		w.reject(&records[0], err)
	default:
		half := len(records) / 2
		w.request(ctx, records[:half])
		if w.result.err == nil {
			w.request(ctx, records[half:])
		}
	}
}

func (w *writer) failf(err error) error {
	return w.sink.failf(err, "write to topic %q partition %d", w.sink.topic.name, w.partition)
}

// inTransactions says whether records are part of a transaction. Those of exactlyOnce are.
func (s *sink) inTransactions() bool { return s.transactionalID != "" }

// pauseInside takes a pause that a broker asks for as part of a Send: a transaction that is
// given up for it would never come further than to the pause. It returns false when there is
// no transaction, when that has no time for it, or when ctx is done first.
func (s *sink) pauseInside(ctx context.Context, pause time.Duration) bool {
	return s.inTransactions() && time.Since(s.began)+pause < s.config.transactionTimeout()/2 && sleep(ctx, pause)
}

// produce makes one request.
func (w *writer) produce(ctx context.Context, records []record) error {
	set, ok := w.sink.sets.Get().(*recordSet)
	if !ok {
		set = &recordSet{}
	}
	head := w.sink.cluster.produceHead(w.sink.topic.name, w.partition, w.sink.transactionalID)
	as := stamp{
		codec:         w.sink.codec,
		time:          time.Now(),
		producer:      w.sequence.producer,
		sequence:      w.sequence.first(),
		transactional: w.sink.inTransactions(),
	}
	if err := set.encode(head, records, as); err != nil {
		return err
	}
	answer, err := w.exchange(ctx, &produceRequest{topic: w.sink.topic.name, partition: w.partition, bytes: set.bytes})
	if err != nil {
		// A request that was given up may still be written: its set is left to it.
		return err
	}
	w.sink.sets.Put(set)
	w.result.throttle = max(w.result.throttle, answer.throttle)
	return answer.err
}

// unverified are the codes of a broker that could not ask the coordinator whether a
// partition is part of the transaction. It has stored nothing.
var unverified = []kafka.Error{kafka.NotEnoughReplicas, kafka.ConcurrentTransactions}

// exchange makes a request, in a transaction again while it is unverified. The leader of
// a partition asks the coordinator at the first request in a transaction, and fails when
// it asks about another partition at that moment: so those requests take turns. None
// follows one that has failed, for a broker that hangs would be waited for once for each.
func (w *writer) exchange(ctx context.Context, r *produceRequest) (answer produced, err error) {
	if w.turn == nil {
		return w.sink.cluster.produce(ctx, r)
	}
	if !w.verified {
		w.turn.Lock()
		defer w.turn.Unlock()
		if w.turn.failed != nil {
			return produced{}, w.turn.failed
		}
	}
	err = w.sink.cluster.patiently(ctx, func() (err error) {
		if answer, err = w.sink.cluster.produce(ctx, r); err != nil {
			return err
		}
		return answer.err
	}, unverified...)
	if !w.verified && err != nil && !isRefusal(err) {
		w.turn.failed = err
	}
	w.verified = w.verified || err == nil
	if answer.err != nil {
		return answer, nil
	}
	return answer, err
}

func (w *writer) reject(r *record, err error) {
	var code kafka.Error
	errors.As(err, &code)
	hint := ""
	if code == kafka.MessageSizeTooLarge {
		hint = ": raise the topic's max.message.bytes, or set kafka.compression"
	}
	w.result.rejected = append(w.result.rejected, &rejection{r.item, codeName(code), fmt.Errorf("write to topic %q partition %d: a record of %d bytes was rejected: %w%s",
		w.sink.topic.name, w.partition, len(r.value), err, hint)})
}

// isRefusal says whether a broker's error is the fault of the records, or of
// one of them, and will be the same for ever.
func isRefusal(err error) bool {
	var code kafka.Error
	return errors.As(err, &code) && codeName(code) != ""
}

// codeName is the name that brokers have for the code of a refusal, and empty
// for any other code.
func codeName(code kafka.Error) string {
	switch code {
	case kafka.MessageSizeTooLarge:
		return "MESSAGE_TOO_LARGE"
	case kafka.RecordListTooLarge:
		return "RECORD_LIST_TOO_LARGE"
	case kafka.InvalidRecord:
		return "INVALID_RECORD"
	case kafka.InvalidTimestamp:
		return "INVALID_TIMESTAMP"
	}
	return ""
}
