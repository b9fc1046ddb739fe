package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// closeTimeout bounds each of the two steps that end a stop: loops that have nothing
// to do but return, and files that have to be closed. Only a disk or a destination that
// hangs needs it. With the default drain timeout both fit into the 30 s that Kubernetes
// gives a pod.
const closeTimeout = 4 * time.Second

// intakeShare is how much of the drain timeout may pass before producers that are
// still connected are cut off. Of the default 20 s it is 16: Gatekeeper serves for 10 s
// after its own SIGTERM, which a container beside it gets at the same moment, and then
// ends what is under way within 5. Deliveries go on meanwhile.
func intakeShare(drain time.Duration) time.Duration { return drain / 5 * 4 }

// loops are goroutines that serve until all of them are told to end, or one is.
type loops struct {
	name  string
	ctx   context.Context
	end   context.CancelFunc
	group sync.WaitGroup
}

func newLoops(ctx context.Context, name string) *loops {
	l := &loops{name: name}
	l.ctx, l.end = context.WithCancel(ctx)
	return l
}

// loop is one of them.
type loop struct {
	cut   context.CancelFunc // ends it
	ended chan struct{}
}

func (l *loops) start(serve func(context.Context)) *loop {
	ctx, cut := context.WithCancel(l.ctx)
	one := &loop{cut: cut, ended: make(chan struct{})}
	l.group.Go(func() {
		defer close(one.ended)
		defer cut()
		serve(ctx)
	})
	return one
}

// stop drains: it goes on taking lines until the producers close or intakeShare of the
// drain timeout is over, delivers what is queued until the drain timeout, says how much
// is left, and closes the sinks and the queue. It takes at most two closeTimeouts longer
// than the drain timeout, however many sinks there are and whatever hangs.
func (e *Exporter) stop(socketDone func()) error {
	began, drain := time.Now(), time.Duration(e.config().Shutdown.DrainTimeout)
	if e.once {
		e.log.Info("stopping: a second signal ends docket at once", "drainTimeout", e.config().Shutdown.DrainTimeout)
	} else {
		e.log.Info("stopping: receiving until producers close; a second signal ends docket at once",
			"drainTimeout", e.config().Shutdown.DrainTimeout, "takesLinesFor", intakeShare(drain).String())
	}
	e.waitUntil(began.Add(intakeShare(drain)), e.producersGone, func() string { return "producers to close" })
	e.taking.end()
	taken := closedAfter(&e.taking.group)
	deadline := began.Add(drain)
	e.waitUntil(deadline, func() bool { return isClosed(taken) && e.allDelivered() }, func() string {
		if isClosed(taken) {
			return "sinks to accept the rest"
		}
		return "sources to end"
	})
	socketDone()
	e.outflow.end()
	delivered := closedAfter(&e.outflow.group)
	limit, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := errors.Join(awaited(limit, e.taking.name, taken), awaited(limit, e.outflow.name, delivered))
	return errors.Join(err, e.close(isClosed(delivered), max(closeTimeout, time.Until(deadline))))
}

// awaited waits for loops that were told to end, until limit is done.
func awaited(limit context.Context, name string, ended <-chan struct{}) error {
	select {
	case <-ended:
	case <-limit.Done():
		if !isClosed(ended) {
			return fmt.Errorf("stop %s: not done within %s: check whether the disk hangs", name, closeTimeout)
		}
	}
	return nil
}

// close logs how much is left for the next start, and closes everything at once: the queue,
// for which it waits as long as limit, the log of refused lines and, if their deliveries
// have ended, the sinks. It logs first: on a disk that hangs the rest may never end.
func (e *Exporter) close(delivered bool, limit time.Duration) error {
	e.logLeft()
	steps := []func() error{
		func() error { return within(limit, e.queue.Close) },
		func() error { return bounded("close the log of refused lines", e.ingest.refused.close) },
	}
	if delivered {
		for _, d := range e.parts().deliveries {
			steps = append(steps, func() error {
				return bounded("close sink "+d.cfg.Name, func() error { return within(closeTimeout, d.close) })
			})
		}
	}
	errs := make([]error, len(steps))
	var all sync.WaitGroup
	for i, step := range steps {
		all.Go(func() { errs[i] = step() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// logLeft says of each sink how much is left.
func (e *Exporter) logLeft() {
	sinks := ledgerOf(e.queue.Stats()).Sinks
	for _, name := range slices.Sorted(maps.Keys(sinks)) {
		attrs := []any{"sink", name, "delivered", sinks[name].Delivered, "left", sinks[name].Pending}
		if n := sinks[name].Dropped; n > 0 {
			attrs = append(attrs, "dropped", n) // nothing is left, and the sink does not have them
		}
		e.log.Info("stopped", attrs...)
	}
}

func within(limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return do(ctx)
}

// bounded is within closeTimeout for calls that no context ends: a sync on a disk that hangs.
// It may leave do behind, which ends with the process at the latest.
func bounded(what string, do func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- do() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(closeTimeout):
		return fmt.Errorf("%s: not done within %s: check whether the disk hangs", what, closeTimeout)
	}
}

func (e *Exporter) producersGone() bool {
	return !slices.ContainsFunc(e.parts().sources, func(s *sourceRunner) bool { return s.source.Connections() > 0 })
}

// allDelivered reports whether there is nothing to deliver, or nothing that a destination accepts.
func (e *Exporter) allDelivered() bool {
	last := e.queue.LastSeq()
	return !slices.ContainsFunc(e.parts().deliveries, func(d *delivery) bool { return d.owes(last) })
}

// owes reports whether there is a record or a redriven letter to deliver that the destination may accept.
func (d *delivery) owes(last uint64) bool {
	return !d.isFinishing() && (d.pending(last) > 0 || d.letters.stats().Redriving > 0) && d.refusesRest(last) == nil
}

// waitNews is how often a stop says what it waits for.
const waitNews = 3 * time.Second

// waitUntil polls done until it is true or the deadline has passed, and says now and then
// what it waits for. A stop is rare, and there is no single event to wait for.
func (e *Exporter) waitUntil(deadline time.Time, done func() bool, what func() string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	news := time.NewTicker(waitNews)
	defer news.Stop()
	for !done() && time.Now().Before(deadline) {
		select {
		case <-tick.C:
		case <-news.C:
			e.log.Info("stopping: waiting for "+what(), append(e.waitsFor(), "atMost", time.Until(deadline).Round(time.Second).String())...)
		}
	}
}

// waitsFor are the connections of each source that has any, producers behind them, and how
// many records each sink has yet to deliver.
func (e *Exporter) waitsFor() []any {
	connections := map[string]int{}
	for _, s := range e.parts().sources {
		if n := s.source.Connections(); n > 0 {
			connections[s.cfg.Name] = n
		}
	}
	attrs := []any{group("left", e.Left()), group("connections", connections)}
	if names := e.ingest.connected(connections); len(names) > 0 {
		attrs = append(attrs, "producers", strings.Join(names, ", "))
	}
	return attrs
}

func group[N any](name string, of map[string]N) slog.Attr {
	var attrs []any
	for _, key := range slices.Sorted(maps.Keys(of)) {
		attrs = append(attrs, slog.Any(key, of[key]))
	}
	return slog.Group(name, attrs...)
}

// Left is how many records each sink has yet to deliver, for sinks with such records.
func (e *Exporter) Left() map[string]uint64 {
	left := map[string]uint64{}
	for name, l := range ledgerOf(e.queue.Stats()).Sinks {
		if l.Pending > 0 {
			left[name] = l.Pending
		}
	}
	return left
}

// closedAfter returns a channel that is closed when the goroutines of group have
// returned.
func closedAfter(group *sync.WaitGroup) <-chan struct{} {
	ended := make(chan struct{})
	go func() { group.Wait(); close(ended) }()
	return ended
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
