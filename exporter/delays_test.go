package exporter

import (
	"reflect"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/docket-export/docket/sinks"
)

func TestDelays(t *testing.T) {
	now := time.Now()
	item := func(ago time.Duration, late sinks.Late) sinks.Item {
		return sinks.Item{Received: now.Add(-ago), Late: late}
	}
	h := newBySink(newDelayHistogram).of("bus")
	h.accepted([]sinks.Item{
		item(20*time.Millisecond, ""), item(20*time.Millisecond, ""), // one chunk
		item(20*time.Millisecond, sinks.Replayed), item(20*time.Millisecond, sinks.Redriven), // an operator's wish
		item(time.Second, ""),  // a bound is in its bucket
		item(-time.Minute, ""), // the clock was set back
	}, now)
	h.accepted([]sinks.Item{item(48*time.Hour, ""), item(20*time.Millisecond, "")}, now)
	h.accepted(nil, now)

	var got dto.Metric
	if err := h.collect("bus").Write(&got); err != nil {
		t.Fatal(err)
	}
	below := map[float64]uint64{}
	for _, b := range got.GetHistogram().GetBucket() {
		below[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	want := map[float64]uint64{0.01: 1, 0.03: 4, 0.1: 4, 0.3: 4, 1: 5, 3: 5, 10: 5, 30: 5, 60: 5, 300: 5, 900: 5, 3600: 5, 14400: 5, 86400: 5}
	if n := got.GetHistogram().GetSampleCount(); !reflect.DeepEqual(below, want) || n != 6 {
		t.Errorf("got %v and %d in all, want %v and 6", below, n, want)
	}
	if sum := got.GetHistogram().GetSampleSum(); sum < 172801.059 || sum > 172801.061 {
		t.Errorf("got the sum %v, want 3*0.02 + 1 + 0 + 172800 seconds", sum)
	}
}

// A batch of chunks of 64 records, as a queue under load has them.
func BenchmarkDelays(b *testing.B) {
	items := make([]sinks.Item, 500)
	for i := range items {
		items[i].Received = time.Unix(int64(i/64), 0)
	}
	h, now := newBySink(newDelayHistogram).of("bus"), time.Now()
	for b.Loop() {
		h.accepted(items, now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(items)), "ns/record")
}
