package exporter

import (
	"context"
	"time"
)

const (
	// quietLook is how often docket looks whether anything happens.
	quietLook = time.Second
	// quietAfter is how long nothing must have happened for it to be quiet.
	quietAfter = 2 * time.Second
	// quietPause is how long after one quiet while the next begins at the earliest: a
	// record every few seconds must not cost a collection of garbage each.
	quietPause = time.Minute
)

// quietWatch tells when work is over, so that memory which only the work needed can go
// back to the system. The zero value takes the start for work.
type quietWatch struct {
	done  uint64    // as it was seen last
	since time.Time // when it was seen to change
	idle  bool      // it was quiet, and done has not changed since
	told  time.Time // when it was quiet last; zero: never
}

// look takes into account how much has been done by now, and reports whether a quiet
// while begins.
func (w *quietWatch) look(done uint64, now time.Time) bool {
	if done != w.done || w.since.IsZero() {
		w.done, w.since, w.idle = done, now, false
	}
	if w.idle || now.Sub(w.since) < quietAfter || !w.told.IsZero() && now.Sub(w.told) < quietPause {
		return false
	}
	w.idle, w.told = true, now
	return true
}

// watchQuiet calls e.quiet at the beginning of each quiet while, until ctx is done.
func (e *Exporter) watchQuiet(ctx context.Context) {
	var w quietWatch
	w.look(e.done(), time.Now())
	tick := time.NewTicker(quietLook)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if w.look(e.done(), now) {
				e.quiet()
			}
		case <-ctx.Done():
			return
		}
	}
}

// done is a number that changes with each record that is stored or done with.
func (e *Exporter) done() uint64 {
	n := e.queue.LastSeq()
	for _, d := range e.parts().deliveries {
		n += d.cursor.Account().Next
	}
	return n
}
