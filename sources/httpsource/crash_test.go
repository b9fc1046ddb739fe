package httpsource

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/sources/sourcetest"
)

// TestCrashes lets the intake die again and again, while clients send until they are answered. Every event is
// stored exactly once.
func TestCrashes(t *testing.T) {
	t.Parallel()
	const clients = 3
	lives := 25 / few(3)
	random := rand.New(rand.NewPCG(7, 7))
	var stored []sourcetest.Line
	sent := map[string]bool{}
	unanswered := make([]string, clients) // the body that each client has to send again
	for life := range lives {
		in := sourcetest.New()
		in.Restore(stored)
		in.OnSettle = func([]sourcetest.Line) {
			if random.IntN(12) == 0 && life+1 < lives { // called by one at a time
				in.Crash()
			}
		}
		r := start(t, in)
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range clients {
			wg.Go(func() {
				for n := range 10 {
					body := unanswered[i]
					if body == "" {
						ids := make([]string, 1+(n+life)%4)
						mu.Lock()
						for k := range ids {
							ids[k] = fmt.Sprintf("%d-%d-%d-%d", life, i, n, k)
							sent[ids[k]] = true
						}
						mu.Unlock()
						body = eventsOf(ids...)
					}
					unanswered[i] = body
					status, _, err := r.tryPost(body)
					if err != nil || status != http.StatusOK {
						return // this life is over
					}
					unanswered[i] = ""
				}
			})
		}
		wg.Wait()
		if life+1 == lives {
			for _, body := range unanswered {
				if body != "" {
					r.mustPost(body)
				}
			}
		}
		r.end()
		in.Crash() // forgets what is not settled
		in.Close()
		stored = in.Lines()
	}
	t.Logf("%d events sent in %d lives", len(sent), lives)
	checkIDs(t, stored, slices.Collect(maps.Keys(sent))...)
}

// After a crash between the queue and the answer, the events of the queue are known, also when
// the queue has forgotten the producer's position.
func TestCrashBeforeAnswer(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	r := start(t, in)
	r.mustPost(eventsOf("a", "b"))
	in.Hold()
	answered := make(chan int, 1)
	go func() {
		status, _, _ := r.tryPost(eventsOf("lost"))
		answered <- status
	}()
	await.Until(t, "the event is under way", func() bool { return in.Pending() == 1 })
	in.Crash()
	r.end()
	if status := <-answered; status == http.StatusOK {
		t.Error("got the answer 200 for what was never stored")
	}
	for _, forgotten := range []bool{false, true} {
		again := sourcetest.New()
		defer again.Close()
		lines := in.Lines()
		for i := range lines {
			if forgotten {
				lines[i].Number = 0
			}
		}
		again.Restore(lines)
		r := start(t, again)
		r.mustPost(eventsOf("b", "a"))
		r.mustPost(eventsOf("a", "lost"))
		checkIDs(t, again.Lines(), "a", "b", "lost")
		if again.Known() != 3 {
			t.Errorf("got %d duplicates, want 3", again.Known())
		}
	}
}
