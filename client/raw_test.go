package client

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/docket-export/docket/decision"
)

// Whoever has a raw has it alone until it is free, in whatever order and by whomever
// others are freed, and gets it empty.
func TestRawHasOneOwner(t *testing.T) {
	const owners, steps = 8, 5000
	shared := make(chan *raw, 100) // to be freed by another owner
	free := func(r *raw) {
		l := r.encode()
		if want := fmt.Sprintf(`{"schemaVersion":1,"sequence":%d}`+"\n", r.rank); string(l.text) != want {
			t.Errorf("got %q, want %q: two have had it", l.text, want)
		}
		l.recycle()
		r.free()
	}
	var owning sync.WaitGroup
	for owner := range owners {
		owning.Go(func() {
			for step := range steps {
				r := newRaw()
				if text := string(r.AppendLine(nil)); r.rank != 0 || text != `{"schemaVersion":1}`+"\n" {
					t.Errorf("got a raw of rank %d with %q, want an empty one", r.rank, text)
				}
				r.rank = 1 + owner*steps + step
				if err := r.Set(&decision.Record{Sequence: uint64(r.rank)}); err != nil {
					t.Error(err)
				}
				select {
				case shared <- r:
				default:
					free(r)
				}
				for range rand.IntN(3) {
					select {
					case r := <-shared:
						free(r)
					default:
					}
				}
			}
		})
	}
	owning.Wait()
	close(shared)
	for r := range shared {
		free(r)
	}
}
