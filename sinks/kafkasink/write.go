package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/sinks"
)

// result is what became of records that were written.
type result struct {
	accepted  []int // indexes into the batch
	rejected  []int // indexes into the batch
	reason    error // why, for the first of rejected
	err       error // a *sinks.Failure; why the remaining records have no answer
	throttle  time.Duration
	abandoned bool // a request was given up and may still be read
}

// merge adds what became of other records.
func (r *result) merge(o result) {
	r.accepted = append(r.accepted, o.accepted...)
	r.rejected = append(r.rejected, o.rejected...)
	if r.reason == nil {
		r.reason = o.reason
	}
	if o.err != nil && (r.err == nil || sinks.FailureOf(o.err).Kind > sinks.FailureOf(r.err).Kind) {
		r.err = o.err // what an operator must act on hides behind no passing trouble
	}
	r.throttle = max(r.throttle, o.throttle)
	r.abandoned = r.abandoned || o.abandoned
}

// failure is r as the answer of Send. Rejected comes first: it is final, and
// the delivery loop offers all the others again in any case.
func (r *result) failure(ctx context.Context) error {
	switch {
	case len(r.rejected) > 0:
		slices.Sort(r.rejected)
		return &sinks.Failure{Kind: sinks.Rejected, Items: r.rejected, Err: r.reason}
	case r.err != nil && ctx.Err() != nil:
		return ctx.Err()
	}
	return r.err
}

// writer writes one share of a batch to its partition, one request after the
// other, so that a record never overtakes an earlier one.
type writer struct {
	sink      *sink
	partition int
	result    result
}

// write stops at the first request that fails for a reason that is not in its
// records.
func (w *writer) write(ctx context.Context, share []record) {
	for _, run := range requests(share) {
		w.request(ctx, run)
		if w.result.err != nil {
			return
		}
	}
}

// request writes records with one request. Refused for one of them, it puts the
// named ones aside, or else halves the request until the culprit is alone.
func (w *writer) request(ctx context.Context, records []record) {
	refused, err := w.produce(ctx, records)
	switch {
	case err == nil:
		for _, r := range records {
			w.result.accepted = append(w.result.accepted, r.item)
		}
	case !isRefusal(err):
		w.result.err = w.fail(err)
	case len(records) == 1:
		w.reject(records[0], err)
	case len(refused) > 0:
		var others []record
		for i, r := range records {
			if reason, ok := refused[i]; ok {
				w.reject(r, fmt.Errorf("%w: %w", err, reason))
			} else {
				others = append(others, r)
			}
		}
		if len(others) > 0 {
			w.request(ctx, others)
		}
	default:
		half := len(records) / 2
		w.request(ctx, records[:half])
		if w.result.err == nil {
			w.request(ctx, records[half:])
		}
	}
}

// produce makes one request. refused are the records that the broker named as
// the reason of its error, by their index in records.
func (w *writer) produce(ctx context.Context, records []record) (refused map[int]error, err error) {
	s := w.sink
	res, err := s.cluster.client.Produce(ctx, &kafka.ProduceRequest{
		Topic:        s.config.Topic,
		Partition:    w.partition,
		RequiredAcks: kafka.RequireAll, // the zero value is none
		Records:      messages(records),
		Compression:  s.codec,
	})
	if err != nil {
		w.result.abandoned = true
		return nil, cause(err)
	}
	w.result.throttle = max(w.result.throttle, res.Throttle)
	refused = res.RecordErrors
	for i := range refused {
		if i < 0 || i >= len(records) {
			return nil, res.Error // such an answer helps nobody
		}
	}
	return refused, res.Error
}

func (w *writer) reject(r record, err error) {
	w.result.rejected = append(w.result.rejected, r.item)
	if w.result.reason == nil {
		w.result.reason = fmt.Errorf("write to topic %q partition %d: a record of %d bytes was refused: %w",
			w.sink.config.Topic, w.partition, len(r.value), err)
	}
}

func (w *writer) fail(err error) error {
	return w.sink.failf(err, "write to topic %q partition %d", w.sink.config.Topic, w.partition)
}

// isRefusal says whether a broker's error is the fault of the records, or of
// one of them, and will be the same for ever.
func isRefusal(err error) bool {
	var code kafka.Error
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case kafka.MessageSizeTooLarge, kafka.RecordListTooLarge, kafka.InvalidRecord, kafka.InvalidTimestamp:
		return true
	}
	return false
}
