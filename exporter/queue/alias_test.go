package queue

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The bytes of a batch are the caller's until the next Next: what it does to them
// must not show in later batches, whatever the limits and the sizes of frames.
func TestBatchesDoNotShareBytes(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if testing.Short() {
		seed = 1 // the gate decides nothing by chance
	}
	t.Log("seed", seed)
	dice := rand.New(rand.NewPCG(seed, 2))
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for range rounds {
		q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 1 << (12 + dice.IntN(12))})
		var all []string
		written := make(chan struct{})
		for range 5 + dice.IntN(60) {
			var records []string
			for range dice.IntN(30) {
				n := dice.IntN(1 << dice.IntN(14))
				if dice.IntN(60) == 0 {
					n = dice.IntN(3 << 20)
				}
				records = append(records, fmt.Sprint(len(all)+len(records), " ", strings.Repeat(string(rune('a'+dice.IntN(26))), n)))
			}
			all = append(all, records...)
			c := chunk(records...)
			c.Received = c.Received.Add(-time.Duration(dice.IntN(2)) * time.Hour)
			must(t, q.Append(t.Context(), c, nil))
		}
		must(t, q.Append(t.Context(), chunk(), func() { close(written) }))
		if dice.IntN(2) == 0 {
			receive(t, "written", written)
		}
		c := cursorOf(t, q, "a")
		var poison [][]byte
		for seq := 0; seq < len(all); {
			for _, b := range poison {
				clear(b)
			}
			poison = poison[:0]
			lim := Limits{Records: 1 + dice.IntN(1<<dice.IntN(10)), Bytes: 1 + dice.IntN(1<<dice.IntN(23)), Wait: time.Duration(dice.IntN(2)) * time.Millisecond}
			batch, err := c.Next(t.Context(), lim)
			must(t, err)
			size := 0
			for _, r := range batch {
				if seq++; r.Seq != uint64(seq) || string(r.Data) != all[seq-1] {
					t.Fatalf("record %d: got seq %d and %.40q, want %.40q", seq, r.Seq, r.Data, all[seq-1])
				}
				size += len(r.Data)
				poison = append(poison, r.Data)
			}
			if len(batch) > lim.Records || len(batch) > 1 && size > lim.Bytes {
				t.Fatalf("batch of %d records and %d bytes, limits %+v", len(batch), size, lim)
			}
			if dice.IntN(2) == 0 {
				must(t, c.Ack(uint64(seq)))
			}
		}
	}
}
