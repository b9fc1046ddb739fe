//go:build soak

package state

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
)

// PositionsBytes is more than the table takes at its worst, with a checkpoint of it that
// is being written and the one before.
func TestPositionsBytes(t *testing.T) {
	now := time.Now()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := newProducers(0)
	for n := range maxProducers {
		o := peer(n / DefaultProducers)
		name := fmt.Append(nil, strings.Repeat("n", 120), n+10000000)
		for gap := range uint64(maxGaps) {
			s.add(&segment.Frame{
				Source: []byte(o.Source), Identity: []byte(o.Identity),
				Producer: name, Position: 1<<40 + 2*gap, Duplicates: 1, Received: now.UnixNano(),
			})
		}
	}
	checkpoints := [][]storedProducer{s.stored(now), s.stored(now)}
	runtime.GC()
	runtime.ReadMemStats(&after)
	took := int64(after.HeapAlloc - before.HeapAlloc)
	t.Logf("%d producers take %d bytes, %d each", maxProducers, took, took/maxProducers)
	if s.Peers != maxProducers || len(checkpoints[1]) != maxProducers || took > PositionsBytes(0) {
		t.Errorf("got %d bytes for %d producers, want at most %d for %d", took, s.Peers, PositionsBytes(0), maxProducers)
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(checkpoints)
}
