package exporter

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// suspicion tells records that a destination refuses from a destination that refuses
// everything: an expired client certificate behind a proxy that answers 400, a clock that a
// broker refuses. One answer does not tell, whatever its code is.
//
// A record is at fault when it is refused, another one is accepted, and it is refused again. So
// a refused record is held while others are tried ahead of their turn, a few in each round. What
// is tried stays in the queue: only its number is kept.
//
// BUG(delivery): A destination that accepts a record of a batch and then begins to refuse everything
// has the rest of that batch set aside.
type suspicion struct {
	clock   uint64        // numbers attempts and refusals in the order in which they begin
	took    atomic.Uint64 // the newest attempt that was accepted
	witness uint64        // the record that was accepted last ahead of its turn
	// ahead has the records that were tried ahead of their turn, and are not settled: true once
	// the destination has them, and false during the attempt.
	ahead map[uint64]bool
}

// tookSince reports whether an attempt was accepted that began after the first refusal of t.
func (s *suspicion) tookSince(t tries) bool { return s.took.Load() > t.number }

// judges reports whether others can be tried before their turn. An Ordered sink takes each at its
// place alone, and one in transactions must be able to undo the attempt.
func (d *delivery) judges(ctx context.Context) bool {
	switch {
	case d.cfg.ordered():
		return false
	case !d.transacts:
		return true
	}
	sink, _ := d.opened(ctx)
	_, undoes := sink.(sinks.Trying)
	return undoes
}

// maxLookAhead is how much of the queue is read for one record to try: a filter may leave out
// the others.
const maxLookAhead = 4096

// tryOthers sends records behind b until one is accepted: one after the other from round to round,
// so that each has its turn, one anywhere, the newest one, and the one that was accepted last. Where
// docket is to end, it tries all of them, once.
func (d *delivery) tryOthers(ctx context.Context, b sinks.Batch, round int, f *sinks.Failure, t tries) (hold *sinks.Failure) {
	refused, last := b.Items[len(b.Items)-1].Seq, d.stored()
	if through := d.through.Load(); through > 0 {
		last = min(last, through)
	}
	var other *sinks.Failure
	done := func() bool { return other != nil || d.suspicion.tookSince(t) || ctx.Err() != nil || d.isFinishing() }
	from, each, most, all := []uint64{refused + 1}, math.MaxInt, math.MaxInt, d.once && d.refused.Load().isOld(last)
	if behind := last - min(last, refused); !all && behind > 0 {
		from = []uint64{refused + 1 + uint64(round-1)%behind, refused + 1 + rand.N(behind), last}
		if round > 1 {
			from = append(from, d.suspicion.witness)
		}
		each, most = 1, maxLookAhead
	}
	for _, seq := range from {
		read, tried := 0, 0
		err := d.readAhead(ctx, max(seq, refused+1), func(r queue.Record) (more bool) {
			if read++; read > most || r.Seq > last || done() {
				return false
			}
			takes, _ := d.packer.selects.takes(r.Data) // its failure is counted when its turn comes
			if takes && d.begin(r.Seq) {
				err := d.attempt(ctx, d.packer.ahead(&r))
				d.end(r.Seq, err == nil)
				if err != nil && sinks.FailureOf(err).Kind != sinks.Rejected {
					other = sinks.FailureOf(err)
				}
				tried++
			}
			return tried < each && !done()
		})
		all = all && err == nil // a queue that cannot be read shows where the delivery reads it
	}
	switch {
	case other != nil:
		return other
	case d.suspicion.tookSince(t):
		return nil
	case all && !done():
		d.refused.Store(&refusedRest{last, t, f})
	}
	return &sinks.Failure{Kind: sinks.Misconfigured, Err: fmt.Errorf(
		"%w: the destination has refused every record that docket tried: docket sets none aside, and continues once one is accepted", f)}
}

// begin reports whether seq may be tried. One that was accepted ahead of its
// turn is sent once more only as the last one that was: docket knows of no better one.
func (d *delivery) begin(seq uint64) bool {
	taken, tried := d.suspicion.ahead[seq]
	if tried {
		return taken && seq == d.suspicion.witness
	}
	d.suspicion.ahead[seq] = false
	return true
}

// end says whether the destination accepts seq, and so has it, unless the attempt was undone.
func (d *delivery) end(seq uint64, accepted bool) {
	if accepted {
		d.suspicion.witness = seq
		d.suspicion.ahead[seq] = true
	}
	if d.transacts || !d.suspicion.ahead[seq] {
		delete(d.suspicion.ahead, seq)
	}
}
