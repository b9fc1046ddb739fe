package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// maxInFlight bounds the requests under way, since kafka-go gives each a
// connection of its own, and a topic may have hundreds of partitions.
const maxInFlight = 16

// writeAll writes every share to its partition and returns what became of all.
func (s *sink) writeAll(ctx context.Context) result {
	var all []*writer
	for _, t := range s.topics {
		if !t.used || t.err != nil {
			continue
		}
		for partition, share := range t.shares {
			if len(share) > 0 {
				all = append(all, &writer{sink: s, topic: t, partition: partition, share: share})
			}
		}
	}
	slots := make(chan struct{}, maxInFlight)
	var writers sync.WaitGroup
	for _, w := range all {
		slots <- struct{}{}
		writers.Go(func() {
			defer func() { <-slots }()
			w.write(ctx)
		})
	}
	writers.Wait()

	var res result
	for _, w := range all {
		res.merge(w.result)
		if w.outgrown {
			w.topic.asked = false
		}
	}
	return res
}

// writer writes one share of a batch to its partition, one request after the
// other, so that a record never overtakes an earlier one.
type writer struct {
	sink      *sink
	topic     *topic
	partition int
	share     []record
	result    result
	outgrown  bool // the limit of the topic is not what it is believed to be
}

// write stops at the first request that fails for a reason that is not in its
// records.
func (w *writer) write(ctx context.Context) {
	for _, run := range requests(w.share, w.topic.room()) {
		w.request(ctx, run)
		if w.result.err != nil {
			return
		}
	}
}

// request writes records with one request. Refused for one of them, it puts the
// named ones aside, or else halves the request until the culprit is alone.
func (w *writer) request(ctx context.Context, records []record) {
	if w.result.throttle > 0 { // another request would be left waiting
		w.result.err = w.sink.throttled(w.result.throttle)
		return
	}
	refused, err := w.produce(ctx, records)
	switch {
	case err == nil:
		w.result.accepted = slices.Grow(w.result.accepted, len(records))
		for i := range records {
			w.result.accepted = append(w.result.accepted, records[i].item)
		}
	case !isRefusal(err):
		w.result.err = w.sink.failf(err, "write to topic %q partition %d", w.topic.name, w.partition)
	case len(records) == 1:
		w.reject(&records[0], err)
	case len(refused) > 0:
		w.without(ctx, records, refused, err)
	default:
		half := len(records) / 2
		w.request(ctx, records[:half])
		if w.result.err == nil {
			w.request(ctx, records[half:])
		}
	}
}

// without puts the refused ones of records aside and writes the others.
func (w *writer) without(ctx context.Context, records []record, refused map[int]error, err error) {
	var others []record
	for i := range records {
		if reason, ok := refused[i]; ok {
			w.reject(&records[i], fmt.Errorf("%w: %w", err, reason))
		} else {
			others = append(others, records[i])
		}
	}
	if len(others) > 0 {
		w.request(ctx, others)
	}
}

// produce makes one request. refused are the records that the broker named as
// the reason of its error, by their index in records.
func (w *writer) produce(ctx context.Context, records []record) (refused map[int]error, err error) {
	set, ok := w.sink.sets.Get().(*recordSet)
	if !ok {
		set = &recordSet{}
	}
	head := w.sink.cluster.produceHead(w.topic.name, w.partition)
	if err := set.encode(head, records, w.sink.codec, time.Now()); err != nil {
		return nil, err
	}
	answer, err := w.sink.cluster.produce(ctx, &produceRequest{topic: w.topic.name, partition: w.partition, bytes: set.bytes})
	if err != nil {
		// A request that was given up may still be written: its set is left to it.
		return nil, err
	}
	w.sink.sets.Put(set)
	w.result.throttle = max(w.result.throttle, answer.throttle)
	w.outgrown = w.outgrown || errors.Is(answer.err, kafka.MessageSizeTooLarge)
	for i := range answer.refused {
		if i < 0 || i >= len(records) {
			return nil, answer.err // such an answer helps nobody
		}
	}
	return answer.refused, answer.err
}

func (w *writer) reject(r *record, err error) {
	var code kafka.Error
	errors.As(err, &code)
	w.result.reject(r.item, codeName(code), fmt.Errorf("write to topic %q partition %d: a record of %d bytes was refused: %w",
		w.topic.name, w.partition, len(r.value), err))
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
