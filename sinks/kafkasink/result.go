package kafkasink

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/docket-export/docket/sinks"
)

// result is what became of items of a batch.
type result struct {
	accepted []int // indexes into the batch
	rejected []*rejection
	err      error // a *sinks.Failure; why the remaining items have no answer
	throttle time.Duration
}

// rejection is one item that will never be taken, and why.
type rejection struct {
	item   int    // index into the batch
	status string // the broker's name for the reason
	err    error
}

// merge adds what became of other items. What an operator must act on
// hides behind no passing trouble.
func (r *result) merge(o result) {
	r.accepted = append(r.accepted, o.accepted...)
	r.rejected = append(r.rejected, o.rejected...)
	if o.err != nil && (r.err == nil || sinks.FailureOf(o.err).Kind > sinks.FailureOf(r.err).Kind) {
		r.err = o.err
	}
	r.throttle = max(r.throttle, o.throttle)
}

// failure is r as the answer of Send. Rejected comes first: it is final, and
// the delivery loop offers all the others again in any case.
func (r *result) failure(ctx context.Context) error {
	switch {
	case len(r.rejected) > 0:
		return r.rejection()
	case r.err != nil && ctx.Err() != nil:
		return ctx.Err()
	}
	return r.err
}

func (r *result) rejection() *sinks.Failure {
	slices.SortFunc(r.rejected, func(a, b *rejection) int { return cmp.Compare(a.item, b.item) })
	f := &sinks.Failure{Kind: sinks.Rejected, Taken: len(r.accepted) > 0, Err: r.rejected[0].err}
	for _, rejected := range r.rejected {
		f.Items = append(f.Items, rejected.item)
		f.Each = append(f.Each, sinks.Answer{Status: rejected.status, Text: sinks.AnswerText(rejected.err.Error())})
	}
	f.Said = f.Each[0]
	return f
}
