package exporter

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/docket-export/docket/sinks"
)

// delayBounds are the buckets of docket_delivery_delay_seconds: from what a healthy sink
// takes to a day, which is as good as for ever.
var delayBounds = []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 300, 900, 3600, 14400, 86400}

// bySink is what is counted of each sink: it outlives a delivery that a reload replaces.
type bySink[T any] struct {
	mu   sync.Mutex
	zero func() *T
	sink map[string]*T // guarded by mu
}

func newBySink[T any](zero func() *T) *bySink[T] {
	return &bySink[T]{zero: zero, sink: map[string]*T{}}
}

func (b *bySink[T]) of(sink string) *T {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.sink[sink]
	if t == nil {
		t = b.zero()
		b.sink[sink] = t
	}
	return t
}

func (b *bySink[T]) forget(sink string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sink, sink)
}

func newDelayHistogram() *delayHistogram {
	return &delayHistogram{counts: make([]uint64, len(delayBounds)+1)}
}

// delayHistogram counts records by how long they were under way. Those of one chunk have
// one time, so a batch costs a comparison a record, a step a chunk and one lock. That of
// Prometheus takes three atomic operations a record.
type delayHistogram struct {
	mu     sync.Mutex
	counts []uint64 // by bucket, the last for what is longer; guarded by mu
	sum    float64  // seconds; guarded by mu
}

// accepted counts items that a destination has accepted now, unless they come late by an
// operator's wish.
func (h *delayHistogram) accepted(items []sinks.Item, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := 0
	for to := range items {
		if next := to + 1; next < len(items) && sameChunk(&items[from], &items[next]) {
			continue
		}
		first, n := &items[from], to+1-from
		from = to + 1
		if first.Late != sinks.OnTime {
			continue
		}
		delay := max(0, now.Sub(first.Received).Seconds()) // the clock may have been set back
		bucket, _ := slices.BinarySearch(delayBounds, delay)
		h.counts[bucket] += uint64(n)
		h.sum += delay * float64(n)
	}
}

// sameChunk reports whether two items in a row have the same time: that of one chunk has the
// same bits, which is cheaper to see than the same moment.
func sameChunk(a, b *sinks.Item) bool {
	return a.Received == b.Received && a.Late == b.Late //nolint:staticcheck // see above
}

// collect returns the histogram of the sink as it is now.
func (h *delayHistogram) collect(sink string) prometheus.Metric {
	h.mu.Lock()
	defer h.mu.Unlock()
	total, below := uint64(0), make(map[float64]uint64, len(delayBounds))
	for i, n := range h.counts {
		total += n
		if i < len(delayBounds) {
			below[delayBounds[i]] = total
		}
	}
	return prometheus.MustNewConstHistogram(descDelay.Desc, total, h.sum, below, sink)
}
