package exporter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docket-export/docket/internal/human"
)

// onceNews is how often a docket that only delivers says what is left: an outage may take hours.
const onceNews = 30 * time.Second

// LeftError says what a queue still holds after Run with Options.Once, by sink.
type LeftError struct {
	Pending     map[string]uint64 // to be delivered
	Parked      map[string]uint64 // the same, of sinks that are not configured
	DeadLetters map[string]uint64 // rejected, and set aside
	Corrupt     map[string]uint64 // lost to damage on disk; quarantine has what is there of them
}

func (e *LeftError) Error() string {
	var parts []string
	for _, left := range []struct {
		what string
		of   map[string]uint64
		do   string
	}{
		{"not delivered", e.Pending, "run it again when the sinks take records"},
		{"kept for sinks that are not configured", e.Parked, "add them again, or with `retire: true` to let them go"},
		{"dead letters", e.DeadLetters, "see docket deadletter ls"},
		{"lost to damage on disk", e.Corrupt, "what could not be read is in quarantine, in the directory of the queue"},
	} {
		if len(left.of) > 0 {
			parts = append(parts, fmt.Sprintf("%s, by sink: %s (%s)", left.what, human.Counts(left.of), left.do))
		}
	}
	return "the queue is not empty, keep its volume: " + strings.Join(parts, "; ")
}

// awaitDrained returns when every sink has what it is to get, or ctx is done.
func (e *Exporter) awaitDrained(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	news := time.NewTicker(onceNews)
	defer news.Stop()
	for !e.isDrained() {
		select {
		case <-tick.C:
		case <-news.C:
			e.log.Info("waiting for sinks to take what is left", group("left", e.Left()))
		case <-ctx.Done():
			return
		}
	}
}

// isDrained reports whether every sink has all records, those among them that sinks have had
// docket make. A sink announces before its batch is settled: so there is nothing more to come
// when none waits to be stored, and none was stored meanwhile.
func (e *Exporter) isDrained() bool {
	last := e.queue.LastSeq()
	return e.allDelivered() && e.announced.isIdle() && e.queue.LastSeq() == last
}

// left returns what the queue still holds; nil: nothing.
func (e *Exporter) left() error {
	left := &LeftError{Pending: map[string]uint64{}, Parked: map[string]uint64{}, DeadLetters: map[string]uint64{}, Corrupt: map[string]uint64{}}
	stats, now := e.queue.Stats(), e.parts()
	for name, account := range stats.Cursors {
		if account.DeadLettered > 0 {
			left.DeadLetters[name] = account.DeadLettered
		}
		if account.Corrupt > 0 {
			left.Corrupt[name] = account.Corrupt
		}
		if d := now.delivery(name); d == nil {
			if n := account.Pending(stats.LastSeq); n > 0 {
				left.Parked[name] = n
			}
		} else if n := d.pending(stats.LastSeq); n > 0 {
			left.Pending[name] = n
		}
	}
	if len(left.Pending)+len(left.Parked)+len(left.DeadLetters)+len(left.Corrupt) == 0 {
		return nil
	}
	return left
}
