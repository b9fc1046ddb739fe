package exporter

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// suspicion tells records that a destination refuses from a destination that refuses
// everything: an expired client certificate behind a proxy that answers 400, a clock that a
// broker refuses. One answer does not tell, whatever its code is.
//
// A record is at fault when it is refused, another one is taken, and it is refused again.
// While nothing is taken, the batch is held, and records behind it are tried ahead of their
// turn, a few in each round, near and far, so that a long run of refused records ends, too.
//
// What is tried goes with Late set to Ahead: a consumer must not take the records before it
// for copies.
type suspicion struct {
	clock atomic.Uint64 // numbers attempts and refusals in the order in which they begin
	took  atomic.Uint64 // the newest attempt that was accepted
	held  atomic.Int32  // batches that wait for one to be taken

	trying chan struct{} // holds a token while a batch has others tried
	octave uint          // of the next distance; owned by the holder of trying, as is round
	round  uint64

	mu    sync.Mutex
	ahead uint64          // the record that is tried now, 0: none; guarded by mu
	over  chan struct{}   // closed when its fate is known; guarded by mu
	taken map[uint64]bool // tried ones that were accepted, and are not settled; guarded by mu
	// proof is the newest record that was accepted ahead of its turn, and when: guarded by mu.
	proof    uint64
	provenAt time.Time
}

// A record that was accepted ahead of its turn speaks for those before it, for a while: a run of
// refused records may be longer than there are others behind it.
const proofLasts = time.Minute

func newSuspicion() *suspicion {
	return &suspicion{trying: make(chan struct{}, 1), taken: map[uint64]bool{}}
}

// accepted notes that the attempt with this number was accepted. It reports whether a batch
// waits for that.
func (s *suspicion) accepted(number uint64) (awaited bool) {
	for {
		newest := s.took.Load()
		if newest >= number || s.took.CompareAndSwap(newest, number) {
			return s.held.Load() > 0
		}
	}
}

// tookSince reports whether an attempt was accepted that began after the first refusal of t.
func (s *suspicion) tookSince(t tries) bool { return s.took.Load() > t.number }

// without returns the items that were not taken ahead of their turn. It waits while one of
// them is tried.
func (s *suspicion) without(items []sinks.Item) []sinks.Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ahead > 0 && slices.ContainsFunc(items, func(it sinks.Item) bool { return it.Seq == s.ahead }) {
		over := s.over
		s.mu.Unlock()
		<-over
		s.mu.Lock()
	}
	isTaken := func(it sinks.Item) bool { return s.taken[it.Seq] }
	if len(s.taken) == 0 || !slices.ContainsFunc(items, isTaken) {
		return items
	}
	return slices.DeleteFunc(slices.Clone(items), isTaken)
}

// proves reports whether a record behind seq was accepted lately.
func (s *suspicion) proves(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return seq < s.proof && time.Since(s.provenAt) < proofLasts
}

func (s *suspicion) isTaken(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[seq]
}

// begin has every batch wait that is to send seq; end says whether the destination accepts it, and
// has it.
func (s *suspicion) begin(seq uint64) (end func(accepted, taken bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead, s.over = seq, make(chan struct{})
	return func(accepted, taken bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if accepted {
			if time.Since(s.provenAt) >= proofLasts {
				s.proof = 0
			}
			s.proof, s.provenAt = max(s.proof, seq), time.Now()
		}
		if s.ahead = 0; taken {
			s.taken[seq] = true
		}
		close(s.over)
	}
}

// pause calls wait, which ends early if b is held and another record is accepted.
func (s *suspicion) pause(isHeld bool, wait func()) {
	if isHeld {
		s.held.Add(1)
		defer s.held.Add(-1)
	}
	wait()
}

// forget forgets what was taken up to seq, which is settled.
func (s *suspicion) forget(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for taken := range s.taken {
		if taken <= seq {
			delete(s.taken, taken)
		}
	}
}

// canTry reports whether records may be sent ahead of their turn. An Ordered sink takes each at
// its place alone, and one in transactions must be able to undo the attempt.
func (d *delivery) canTry(ctx context.Context) bool {
	if d.cfg.ordered() {
		return false
	}
	if !d.transacts {
		return true
	}
	sink, err := d.opened(ctx)
	_, undoes := sink.(sinks.Trying)
	return err == nil && undoes
}

// most of the queue that is read for one record to try: a filter may leave out the others.
const maxLookAhead = 4096

// tryOthers tries other records than those of b that f refuses, until one of them is accepted.
func (q fromQueue) tryOthers(ctx context.Context, b sinks.Batch, f *sinks.Failure, t tries) (again bool, hold *sinks.Failure) {
	if !q.canTry(ctx) {
		return false, nil
	}
	s := q.suspicion
	select {
	case s.trying <- struct{}{}:
		defer func() { <-s.trying }()
	case <-ctx.Done():
		return true, nil
	}
	first, last, end := b.Items[0].Seq, q.stored(), q.batch.Items[len(q.batch.Items)-1].Seq
	next := first + s.round // one after the other, so that in the end each is tried
	far := first + 1<<s.octave + rand.N(uint64(1)<<s.octave)
	tried := map[uint64]bool{}
	for _, seq := range []uint64{first, next, far, end, last} {
		if s.tookSince(t) || ctx.Err() != nil || q.isFinishing() {
			break
		}
		try, begun, ok := q.ahead(ctx, b, f, seq)
		if !ok || tried[try.Items[0].Seq] {
			continue
		}
		tried[try.Items[0].Seq] = true
		done := s.begin(try.Items[0].Seq)
		if begun() {
			done(false, false)
			continue
		}
		err := q.attempt(ctx, try)
		done(err == nil, err == nil && !q.transacts)
		if other := sinks.FailureOf(err); err != nil && other.Kind != sinks.Rejected {
			return false, other
		}
	}
	switch {
	case s.tookSince(t):
		return true, nil
	case s.proves(b.Items[len(b.Items)-1].Seq):
		return false, nil
	}
	if s.octave++; first+1<<s.octave > last {
		s.octave = 0
	}
	if s.round++; first+s.round > last {
		s.round = 0
	}
	return false, &sinks.Failure{Kind: sinks.Misconfigured, Err: fmt.Errorf(
		"%w: the destination has refused every record that docket tried: docket sets none aside, and continues once one is accepted", f)}
}

// ahead returns a batch of the first record from seq on that can be tried: another of the same batch, of one
// that waits for a slot, or behind all batches. begun reports whether a batch with it may be under way
// meanwhile.
func (q fromQueue) ahead(ctx context.Context, b sinks.Batch, f *sinks.Failure, seq uint64) (try sinks.Batch, begun func() bool, ok bool) {
	one := func(incarnation string, it sinks.Item) sinks.Batch {
		it.Late = sinks.Ahead
		return sinks.Batch{Queue: incarnation, Items: []sinks.Item{it}}
	}
	last := b.Items[len(b.Items)-1].Seq
	for _, it := range q.batch.Items {
		i, isRefused := slices.BinarySearchFunc(b.Items, it.Seq, func(o sinks.Item, seq uint64) int { return cmp.Compare(o.Seq, seq) })
		if isRefused && len(f.Items) > 0 {
			_, isRefused = slices.BinarySearch(f.Items, i)
		}
		if it.Seq >= seq && (it.Seq > last || b.Items[0].Seq <= it.Seq) && !isRefused && !q.suspicion.isTaken(it.Seq) {
			return one(b.Queue, it), func() bool { return false }, true
		}
	}
	q.settling.Lock()
	for _, waiting := range q.underWay {
		for _, it := range waiting.Items {
			if it.Seq >= seq && it.Seq > last && !waiting.begun.Load() && !q.suspicion.isTaken(it.Seq) {
				it.Record = slices.Clone(it.Record)
				q.settling.Unlock()
				return one(waiting.Queue, it), waiting.begun.Load, true
			}
		}
	}
	q.settling.Unlock()
	// A queue that cannot be read shows where the delivery reads it.
	read, through := 0, q.through.Load()
	_ = q.readAhead(ctx, max(seq, q.packed.Load()+1, q.has.Load()), func(r queue.Record) (more bool) {
		if read++; read > maxLookAhead || through > 0 && r.Seq > through {
			return false
		}
		takes, _ := q.packer.selects.takes(r.Data) // its failure is counted when its turn comes
		if !takes || q.suspicion.isTaken(r.Seq) || q.letters.has(r.Seq) {
			return true
		}
		it := sinks.Item{Seq: r.Seq, Source: r.Source, Producer: r.Producer, Received: r.Received, Record: slices.Clone(r.Data)}
		if q.cfg.Stamp {
			it.Record = appendStamped(nil, &r)
		}
		try, ok = one(r.Incarnation, it), true
		return false
	})
	return try, func() bool { return try.Items[0].Seq <= q.packed.Load() }, ok
}
