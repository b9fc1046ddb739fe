package exporter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docket-export/docket/sources"
)

const (
	// sourceWait is how long a reload waits for a source that ends: longer than a stream
	// source needs, whatever its producers do.
	sourceWait = 5 * time.Second
	// batchWait is how long a sink that changes may take over the batch under way. A batch
	// that fails meanwhile is not waited for.
	batchWait = 10 * time.Second
	// retiredLook is how often docket looks whether removed sinks have what they are to get.
	retiredLook = time.Second
)

// UnfinishedError says which parts of a reload could not be carried out yet. Another Reload
// with the same configuration continues with them.
type UnfinishedError struct{ Parts []string }

func (e *UnfinishedError) Error() string { return strings.Join(e.Parts, "; ") }

// Reload makes cfg the configuration in force, while Run is running. Unchanged parts
// continue: none of their connections ends. A changed source ends cleanly and starts again. A
// changed sink first finishes the batch under way, and continues from its cursor. A removed
// sink gets the records stored so far, and is then forgotten.
//
// waiting are the keys that wait for a restart: until then they keep their old values.
// After a *UnfinishedError everything else is in force; after any other error nothing has
// changed. The error is ErrStopping once a stop begins.
func (e *Exporter) Reload(cfg *Config) (waiting []string, err error) {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-e.stopping:
		return nil, ErrStopping
	}
	cfg = e.serves(cfg)
	before := e.parts()
	changes, err := Changes(before.cfg, cfg)
	if err != nil {
		return nil, err
	}
	next := &parts{cfg: cfg.inForce(before.cfg)}
	if err := e.nextSources(before, next); err != nil {
		return nil, err
	}
	waiting = waitingKeys(changes)
	if !e.queue.Reconfigure(next.cfg.Queue.options()) {
		next.cfg.Queue.MaxBytes = before.cfg.Queue.MaxBytes
		waiting = append(waiting, "queue.maxBytes")
	}
	var ending sync.WaitGroup
	e.endSources(before, next, &ending)
	unfinished := e.nextSinks(before, next)
	if !isClosed(e.stopping) {
		// In a full queue a source may end only once sinks go on.
		now := &parts{cfg: next.cfg, sources: before.sources, deliveries: next.deliveries}
		e.now.Store(now)
		e.start(now)
	}
	ending.Wait()
	if isClosed(e.stopping) {
		return nil, ErrStopping // what has ended stays so
	}
	e.now.Store(next)
	e.waitTheirTurn(next)
	e.start(next)
	e.serveMetrics(next.cfg.Metrics)
	next.openAgain()
	e.store()
	e.logChanges(changes)
	if len(unfinished) > 0 {
		return waiting, &UnfinishedError{unfinished}
	}
	return waiting, nil
}

// logChanges says what has changed, save of removed sinks, of which more is to say; see
// retire.
func (e *Exporter) logChanges(changes []Change) {
	for _, c := range changes {
		if c.Action == Keep || c.Action == Restart || c.Action == Remove && c.Part == "sink" {
			continue
		}
		about := []any{c.Part, c.Name}
		if c.Name == "" {
			about = nil
		}
		if len(c.Keys) > 0 {
			about = append(about, "keys", c.Keys)
		}
		e.log.Info("configuration: "+strings.ToLower(string(c.Action))+" "+c.Part, about...)
	}
}

// nextSources fills in the sources of next: those of before that are the same, and new ones.
func (e *Exporter) nextSources(before, next *parts) error {
	var fresh []*sourceRunner
	for _, s := range next.cfg.Sources {
		old := before.source(s.Name)
		if old != nil && old.cfg.equal(s) {
			next.sources = append(next.sources, old)
			continue
		}
		r, err := e.newSource(next.cfg, s)
		if err != nil {
			return err
		}
		next.sources, fresh = append(next.sources, r), append(fresh, r)
	}
	return checkVersions(next.cfg, fresh)
}

// endSources ends the sources of before that are not in next.
func (e *Exporter) endSources(before, next *parts, ending *sync.WaitGroup) {
	for _, r := range before.sources {
		if slices.Contains(next.sources, r) {
			continue
		}
		for _, after := range next.sources {
			if s, ok := after.source.(sources.Successor); ok && after.loop == nil {
				s.TakeOver(r.source)
			}
		}
		r.loop.cut()
		name := r.cfg.Name
		e.lingering[name] = append(slices.DeleteFunc(e.lingering[name], func(l *loop) bool { return isClosed(l.ended) }), r.loop)
		ending.Go(func() {
			if !e.awaits(r.loop, sourceWait) && !isClosed(e.stopping) {
				r.log.Warn("source has not ended, and the new source of this name waits for it: check whether the disk hangs", "within", sourceWait.String())
			}
		})
	}
}

// waitTheirTurn has sources that are not started wait for those that had their names, and
// their files, and have not ended.
func (e *Exporter) waitTheirTurn(p *parts) {
	for _, r := range p.sources {
		if r.loop == nil {
			r.after = slices.Clone(e.lingering[r.cfg.Name])
		}
	}
}

// nextSinks fills in the deliveries of next, those of removed sinks last. It returns what it
// could not do.
func (e *Exporter) nextSinks(before, next *parts) (unfinished []string) {
	removed := slices.DeleteFunc(slices.Clone(before.deliveries), func(d *delivery) bool { return next.cfg.sink(d.cfg.Name) != nil })
	inFile, last := len(next.cfg.Sinks), e.queue.LastSeq()
	after := make([]*delivery, inFile+len(removed)) // nil: none
	failed := make([]error, len(after))
	var all sync.WaitGroup
	for i, d := range removed {
		if d.through.Load() == 0 {
			d.retire(last)
		}
		all.Go(func() { after[inFile+i], failed[inFile+i] = e.goesOn(before.cfg, d) })
	}
	for i, s := range next.cfg.Sinks {
		all.Go(func() { after[i], failed[i] = e.nextSink(next.cfg, s, before.delivery(s.Name)) })
	}
	all.Wait()
	for i, d := range after {
		if d != nil {
			next.deliveries = append(next.deliveries, d)
		}
		if failed[i] != nil {
			unfinished = append(unfinished, failed[i].Error())
		}
	}
	return unfinished
}

// goesOn returns d, or its successor if an earlier change or replay was to end d, and could not
// within its time. With an error it may be d still; nil is for one that has ended without.
func (e *Exporter) goesOn(cfg *Config, d *delivery) (*delivery, error) {
	if !d.isFinishing() {
		return d, nil
	}
	if !e.endSink(d, batchWait) {
		return d, notEnded(d.cfg.Name)
	}
	return e.successor(cfg, d)
}

// successor returns a new delivery of the sink of old, which has ended.
func (e *Exporter) successor(cfg *Config, old *delivery) (*delivery, error) {
	d, err := e.newSink(cfg, old.cfg, old.metrics)
	if err == nil {
		d.through.Store(old.through.Load())
	}
	return d, err
}

func notEnded(sink string) error {
	return fmt.Errorf("sink %s is unchanged: its current operation does not end: check whether the disk hangs", sink)
}

// nextSink returns the delivery of a sink whose delivery was old, nil if it had none. With
// an error it may be old still; nil is for a sink that gets nothing more.
func (e *Exporter) nextSink(cfg *Config, s SinkConfig, old *delivery) (*delivery, error) {
	metrics := e.metrics.delivery
	if old != nil {
		if !s.Retire && old.cfg.equal(s) && old.through.Load() == 0 && !old.isFinishing() {
			return old, nil
		}
		wait := batchWait
		if s.Retire {
			wait = 0
		}
		if !e.endSink(old, wait) {
			return old, notEnded(s.Name)
		}
		metrics = func(string) *deliveryMetrics { return old.metrics }
	}
	if s.Retire {
		e.letGo(s.Name)
		return nil, nil
	}
	return e.newSink(cfg, s, metrics(s.Name))
}

// endSink ends a delivery, once the batch under way is decided if that is within wait, and
// closes the sink. It reports false if the delivery has not ended.
func (e *Exporter) endSink(d *delivery, wait time.Duration) (ended bool) {
	d.finish()
	if !e.awaits(d.loop, wait) {
		d.loop.cut()
		if !e.awaits(d.loop, closeTimeout) {
			return false
		}
	}
	if err := bounded("close sink "+d.cfg.Name, func() error { return within(closeTimeout, d.close) }); err != nil {
		d.log.Warn("sink did not close cleanly", "error", err)
	}
	return true
}

// awaits reports whether a loop ends within limit, and before a stop begins.
func (e *Exporter) awaits(l *loop, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.ended:
		return true
	case <-timer.C:
	case <-e.stopping:
	}
	return isClosed(l.ended)
}

// openAgain has sinks that could not be opened try at once: what has just ended may have had
// their directory.
func (p *parts) openAgain() {
	for _, d := range p.deliveries {
		if d.closed.isOpen() {
			d.retryNow.Broadcast()
		}
	}
}

// retire has d deliver the records up to last, and no more.
func (d *delivery) retire(last uint64) {
	d.through.Store(max(last, 1)) // with no record stored there is nothing pending either
	d.log.Info("sink is removed: it still gets the records stored so far; set `retire: true` to drop them", "records", d.pending(last))
}

// isDrained reports whether a removed sink has all that it is to get.
func (d *delivery) isDrained() bool {
	through := d.through.Load()
	return through > 0 && d.pending(through) == 0
}

// watchRetired forgets removed sinks that have what they are to get, until ctx is done.
func (e *Exporter) watchRetired(ctx context.Context) {
	tick := time.NewTicker(retiredLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.forgetDrained()
		case <-ctx.Done():
			return
		}
	}
}

// forgetDrained forgets the sinks that are drained, unless a reload or a stop is under way.
func (e *Exporter) forgetDrained() {
	if !slices.ContainsFunc(e.parts().deliveries, (*delivery).isDrained) {
		return
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	default:
		return
	}
	before := e.parts()
	next := *before
	next.deliveries = nil
	for _, d := range before.deliveries {
		if !d.isDrained() || !e.endSink(d, batchWait) {
			next.deliveries = append(next.deliveries, d)
			continue
		}
		e.queue.Forget(d.cfg.Name)
		e.metrics.forget(d.cfg.Name)
		d.log.Info("removed sink has received all its records: docket forgets it")
	}
	e.now.Store(&next)
	next.openAgain()
	e.store()
}
