package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// A cursor that asks all the time meets every moment of a commit: what is written
// and not synced, synced and not shown, shown and not yet read. It must take none
// of them for damage.
func TestCursorThatAsksAllTheTime(t *testing.T) {
	const last = 400
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 64 << 10})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range last { // each alone, so that there are many commits
			store(t, q, chunk(strings.Repeat("x", 700)))
		}
	}()
	c := cursorOf(t, q, "a")
	now, cancel := context.WithCancel(t.Context())
	cancel() // Next returns what there is
	for seq := uint64(0); seq < last; {
		records, err := c.Next(now, Limits{Records: 100, Bytes: 1 << 20})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		for _, r := range records {
			if seq++; r.Seq != seq {
				t.Fatalf("got record %d, want %d", r.Seq, seq)
			}
		}
		if len(records) > 0 {
			must(t, c.Ack(seq))
		}
		if n := q.Stats().Corrupt; n > 0 {
			t.Fatalf("corrupt: got %d after record %d, want 0: nothing was damaged", n, seq)
		}
	}
	<-ended
}
