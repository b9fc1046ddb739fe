package feed_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/sourcetest"
)

// TestRandom reads a file of lines through intakes that are full, held and crash at
// random moments. The reader writes down at leisure how far it has come, and goes on
// from there or from any earlier line. Each line is stored once, in order.
func TestRandom(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			rd := &reader{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), total: 200}
			var durable []sourcetest.Line
			for crash := true; crash; {
				in := sourcetest.New()
				in.Restore(durable)
				ctx, stop := context.WithCancel(t.Context())
				crash = rd.rand.IntN(4) > 0
				if crash {
					time.AfterFunc(time.Duration(rd.rand.IntN(20_000))*time.Millisecond, func() { in.Crash(); stop() })
				}
				var wg sync.WaitGroup
				weather := rand.New(rand.NewPCG(seed, 1))
				wg.Go(func() { disturb(ctx, in, weather) })
				if finished := rd.read(ctx, in); finished {
					crash = false
				}
				stop()
				wg.Wait()
				in.Close()
				durable = in.Lines()
				if last := uint64(len(durable)); last < rd.saved {
					t.Fatalf("seed %d: %d lines are durable, the reader was told of %d", seed, last, rd.saved)
				}
				if !crash {
					expect(t, in, rd.total)
				}
			}
		})
	}
}

// disturb fills and drains, holds and releases, until ctx is done.
func disturb(ctx context.Context, in *sourcetest.Intake, r *rand.Rand) {
	for ctx.Err() == nil {
		switch r.IntN(6) {
		case 0:
			in.Fill()
		case 1, 2:
			in.Drain()
		case 3:
			in.Hold()
		case 4:
			in.Settle(1 + r.IntN(20))
		case 5:
			in.Release()
		}
		select {
		case <-time.After(time.Duration(r.IntN(1000)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
	in.Drain()
	in.Release()
}

// reader reads lines 1 to total.
type reader struct {
	t     *testing.T
	seed  uint64
	rand  *rand.Rand
	total int
	saved uint64 // what it has written down: this much is durable
}

// read reads from a random line that is not beyond what was saved. It reports whether it
// came to the end; if not there was a crash.
func (rd *reader) read(ctx context.Context, in *sourcetest.Intake) (finished bool) {
	next := 1 + rd.rand.IntN(int(rd.saved)+1)
	f, acked, err := feed.Open(ctx, in, "test", producer, uint64(next))
	if err != nil {
		return false
	}
	defer f.Close()
	if acked < rd.saved {
		rd.t.Fatalf("seed %d: acked %d, and %d was durable", rd.seed, acked, rd.saved)
	}
	if rd.rand.IntN(2) == 0 && acked >= uint64(next) { // it may skip what is known, in another session
		f.Close()
		next = int(acked) + 1
		if f, _, err = feed.Open(ctx, in, "test", producer, uint64(next)); err != nil {
			return false
		}
		defer f.Close()
	}
	settled := f.Settled()
	for next <= rd.total {
		n := min(1+rd.rand.IntN(12), rd.total-next+1)
		chunk := lines(next, next+n-1)
		if err := f.Send(ctx, chunk, n); err != nil {
			return false
		}
		clear(chunk) // which is the reader's again
		next += n
		now := f.Settled()
		if now < settled || f.Next() != uint64(next) {
			rd.t.Fatalf("seed %d: settled %d after %d, next %d, want %d", rd.seed, now, settled, f.Next(), next)
		}
		settled = now
		if rd.rand.IntN(3) == 0 {
			rd.saved = settled
		}
		time.Sleep(time.Duration(rd.rand.IntN(500)) * time.Millisecond)
	}
	return f.Settle(ctx) == nil && f.Settled() == uint64(rd.total)
}
