package exporter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/internal/human"
	"github.com/docket-export/docket/sinks"
)

// onceNews is how often a docket that only delivers says what is left: an outage may take hours.
const onceNews = 30 * time.Second

// LeftError says what a queue still holds after Run with Options.Once, by sink.
type LeftError struct {
	Pending     map[string]uint64 // to be delivered
	Refused     map[string]string // how destinations refuse each of those, where they accept none
	Parked      map[string]uint64 // the same, of sinks that are not configured
	DeadLetters map[string]uint64 // rejected, and set aside
	Corrupt     map[string]uint64 // lost to damage on disk; quarantine has the unreadable bytes
}

func (e *LeftError) Error() string {
	var parts []string
	pending := maps.Clone(e.Pending)
	for _, name := range slices.Sorted(maps.Keys(e.Refused)) {
		delete(pending, name)
		parts = append(parts, fmt.Sprintf("sink %s refuses all that is left for it, %d records: %s (mend it and run docket again: they stay in the queue, "+
			"and docket sets them aside as soon as the sink accepts another record; `retire: true` drops them)", name, e.Pending[name], e.Refused[name]))
	}
	for _, left := range []struct {
		what string
		of   map[string]uint64
		do   string
	}{
		{"not delivered", pending, "run docket again when the sinks accept records"},
		{"kept for sinks that are not configured", e.Parked, "add them again, or with `retire: true` to drop them"},
		{"dead letters", e.DeadLetters, "start docket run, then see docket deadletter ls"},
		{"lost to damage on disk", e.Corrupt, "the unreadable bytes are in quarantine, in the directory of the queue"},
	} {
		if len(left.of) > 0 {
			parts = append(parts, fmt.Sprintf("%s, by sink: %s (%s)", left.what, human.Counts(left.of), left.do))
		}
	}
	return "the queue is not empty, keep its volume: " + strings.Join(parts, "; ")
}

// awaitDrained returns when every sink has what it is to get, and its destination accepts, or ctx is done.
func (e *Exporter) awaitDrained(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	news := time.NewTicker(onceNews)
	defer news.Stop()
	for !e.isDrained() {
		select {
		case <-tick.C:
		case <-news.C:
			e.log.Info("waiting for sinks to accept the rest", group("left", e.Left()))
		case <-ctx.Done():
			return
		}
	}
}

// isDrained reports whether every sink has all records, with those that sinks have made docket add. A sink
// announces such a record before its batch is settled. So the announcements end here: a sink that is opened
// late, or has a file that has grown old, must not add to a queue that was found empty.
func (e *Exporter) isDrained() bool {
	last := e.queue.LastSeq()
	return e.allDelivered() && e.announced.endIfIdle() && e.queue.LastSeq() == last
}

// left returns what the queue still holds; nil: nothing.
func (e *Exporter) left() error {
	left := &LeftError{Pending: map[string]uint64{}, Refused: map[string]string{}, Parked: map[string]uint64{}, DeadLetters: map[string]uint64{}, Corrupt: map[string]uint64{}}
	stats, now := e.queue.Stats(), e.parts()
	for name, account := range stats.Cursors {
		if account.Corrupt > 0 {
			left.Corrupt[name] = account.Corrupt
		}
		d := now.delivery(name)
		if d == nil {
			if n := account.Pending(stats.LastSeq); n > 0 {
				left.Parked[name] = n
			}
			continue
		}
		if n := d.letters.stats().Letters; n > 0 {
			left.DeadLetters[name] = uint64(n)
		}
		if n := d.pending(stats.LastSeq); n > 0 {
			left.Pending[name] = n
			if how := d.refusesRest(stats.LastSeq); how != nil {
				left.Refused[name] = how.Error()
			}
		}
	}
	if len(left.Pending)+len(left.Parked)+len(left.DeadLetters)+len(left.Corrupt) == 0 {
		return nil
	}
	return left
}

// refusedRest says that the destination has refused each record up to last, since when, and how.
type refusedRest struct {
	last  uint64
	since tries
	how   *sinks.Failure
}

func (r *refusedRest) isOld(last uint64) bool { return r == nil || r.last < last }

// refusesRest is how the destination has refused each record up to last that is left, having accepted
// none since; nil: it has not.
func (d *delivery) refusesRest(last uint64) (how *sinks.Failure) {
	r := d.refused.Load()
	if r.isOld(last) || d.suspicion.tookSince(r.since) {
		return nil
	}
	return r.how
}
