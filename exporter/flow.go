package exporter

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/exporter/queue"
)

const (
	// rateSpan is the time over which rates are taken: long enough for a batch a few
	// seconds apart, short enough to see a producer begin.
	rateSpan = time.Minute
	// rateStep is how far samples are apart.
	rateStep = 5 * time.Second
)

// flow tells how fast records come and go. Its samples are totals of all sources and
// sinks that the queue knows, so one that is new has begun at 0.
type flow struct {
	mu      sync.Mutex
	samples []sample // of the last rateSpan, the oldest first; guarded by mu
}

// sample is what had passed at one moment.
type sample struct {
	at        time.Time
	stored    uint64
	received  map[string]uint64 // by source
	delivered map[string]uint64 // by sink
	next      map[string]uint64 // by sink: seq of the record to deliver next
}

func sampleOf(stats queue.Stats, at time.Time) sample {
	s := sample{
		at: at, stored: stats.LastSeq,
		received: map[string]uint64{}, delivered: map[string]uint64{}, next: map[string]uint64{},
	}
	for name, t := range stats.Sources {
		s.received[name] = t.Received
	}
	for name, a := range stats.Cursors {
		s.delivered[name], s.next[name] = a.Delivered, a.Next
	}
	return s
}

// look keeps stats, which are as of now, unless there is a sample that is as good.
func (f *flow) look(stats queue.Stats, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.samples); n > 0 && now.Sub(f.samples[n-1].at) < rateStep {
		return
	}
	for len(f.samples) > 1 && now.Sub(f.samples[1].at) >= rateSpan {
		f.samples = f.samples[1:]
	}
	f.samples = append(f.samples, sampleOf(stats, now))
}

// rates returns the rates up to stats, which are as of now.
func (f *flow) rates(stats queue.Stats, now time.Time) rates {
	r := rates{now: sampleOf(stats, now)}
	r.then = r.now
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.samples) > 0 {
		r.then = f.samples[0]
	}
	return r
}

// rates are what has passed between two samples.
type rates struct{ then, now sample }

// perSecond is the rate from then to now; 0 for a count that has become less, as those of
// a sink do at a replay.
func (r rates) perSecond(then, now uint64) float64 {
	if now < then {
		return 0
	}
	// The first second is taken for a whole one: a start is no burst.
	return float64(now-then) / max(r.now.at.Sub(r.then.at), time.Second).Seconds()
}

func (r rates) stored() float64 { return r.perSecond(r.then.stored, r.now.stored) }

func (r rates) received(source string) float64 {
	return r.perSecond(r.then.received[source], r.now.received[source])
}

func (r rates) delivered(sink string) float64 {
	return r.perSecond(r.then.delivered[sink], r.now.delivered[sink])
}

// fullIn is in how many seconds the queue is full, when what waits for the sink that is
// most behind grows on as it does; nil when it does not grow, or is full or fails already.
// How long a record is in the queue is taken from those that are kept.
func (r rates) fullIn(stats queue.Stats, state State) *float64 {
	sink, pending := mostBehind(stats)
	kept := stats.LastSeq + 1 - stats.FirstSeq
	if pending == 0 || kept == 0 || state != Active {
		return nil
	}
	growth := r.stored() - r.perSecond(r.then.next[sink], r.now.next[sink])
	if growth <= 0 {
		return nil
	}
	perRecord := float64(stats.Bytes) / float64(kept)
	full := float64(stats.Free) / perRecord / growth
	return &full
}

// lastRecords is when the last record of each source came. Safe for concurrent use.
type lastRecords struct{ bySource sync.Map } // name to *atomic.Int64, nanoseconds; 0: none

// of returns the place of a source, which is there from now on.
func (l *lastRecords) of(source string) *atomic.Int64 {
	at, _ := l.bySource.LoadOrStore(source, new(atomic.Int64))
	return at.(*atomic.Int64)
}

// get is nil when none has come since the start.
func (l *lastRecords) get(source string) *time.Time {
	nanoseconds := l.of(source).Load()
	if nanoseconds == 0 {
		return nil
	}
	at := time.Unix(0, nanoseconds).UTC()
	return &at
}
