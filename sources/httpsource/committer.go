package httpsource

import (
	"context"
	"errors"
	"fmt"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/known"
)

// maxGroup bounds the batches that share a sync, and so what stays in memory when those
// who brought them no longer wait.
const maxGroup = 16

var (
	errStopping  = errors.New("docket is stopping: send the body again")
	errNotKnown  = errors.New("docket cannot write its log of known events: send the body again")
	errTakenOver = errors.New("another source of this name has taken over")
)

// committer brings batches into the queue, all under the numbers of one producer, and
// each event once; package known explains how. Everything but put and wait belongs to
// the goroutine that calls run.
type committer struct {
	in    sources.Intake
	env   sources.Env
	evict context.CancelCauseFunc // ends whoever runs the committer
	// knownErr is told why the log of known events takes nothing, nil when it does.
	knownErr func(error)

	known    *known.Log
	session  sources.Session
	progress *progress
	inbox    chan *batch
	ended    chan struct{} // closed when no batch is taken any more
}

// open takes up the numbers of the source where they ended. It blocks while another
// source of the name is still at work.
func (c *committer) open(ctx context.Context) error {
	// Only the intake knows where that is, and whom it tells has said already which
	// number comes next: hence a session for asking alone.
	session, acked, err := c.in.Open(ctx, c.opening(1, func() {}))
	if err != nil {
		return err
	}
	session.Close()
	c.inbox, c.ended = make(chan *batch), make(chan struct{})
	l, skipped, err := known.Open(c.env.StateDir)
	if err != nil {
		return err
	}
	if skipped > 0 {
		c.env.Log.Warn("part of the log of known events is damaged: events that are sent again may be stored twice", "bytes", skipped)
	}
	next, err := l.Restore(acked)
	if err != nil {
		return err
	}
	c.known, c.progress = l, newProgress(next-1)
	if err := c.begin(ctx); err != nil {
		l.Close()
		return err
	}
	return nil
}

func (c *committer) opening(next uint64, evict func()) sources.Opening {
	return sources.Opening{
		Source: c.env.Name, Producer: feed.Producer(c.env.Name, "events"), Next: next,
		Evict:   evict,
		Settled: func(r sources.Receipt) { c.progress.advance(r.Through) },
	}
}

// begin opens the session that the next events go to.
func (c *committer) begin(ctx context.Context) error {
	next := c.known.Next()
	session, acked, err := c.in.Open(ctx, c.opening(next, func() { c.evict(errTakenOver) }))
	if err != nil {
		return err
	}
	if acked >= next { // it would take what comes for what it has
		session.Close()
		return fmt.Errorf("the queue has %d events of this source, %d of them unknown: another source uses its name", acked, acked-next+1)
	}
	c.session = session
	return nil
}

// run takes batches until stop is closed, and then settles what it has submitted. An
// error means that ctx is done or the exporter is stopping.
func (c *committer) run(ctx context.Context, stop <-chan struct{}) error {
	defer c.known.Close()
	defer c.session.Close()
	defer close(c.ended)
	for {
		select {
		case b := <-c.inbox:
			if err := c.commit(ctx, c.gather(b)); err != nil {
				return err
			}
		case <-c.progress.moved:
			c.mark()
		case <-stop:
			err := c.session.Settle(ctx)
			c.mark()
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// gather returns b and the batches that wait behind it.
func (c *committer) gather(b *batch) []*batch {
	group := []*batch{b}
	for len(group) < maxGroup {
		select {
		case b := <-c.inbox:
			group = append(group, b)
		default:
			return group
		}
	}
	return group
}

// mark has the log of known events say that everything is durable, if it is.
func (c *committer) mark() {
	c.known.Settled(c.progress.durable())
	if c.progress.durable() == c.known.Next()-1 {
		c.known.Mark()
	}
}

// commit puts the events of a group on their way to the disk, and tells those who wait.
// An error is that of run.
func (c *committer) commit(ctx context.Context, group []*batch) error {
	c.known.Settled(c.progress.durable())
	first := c.known.Next()
	for _, b := range group {
		b.number(c.known)
	}
	if !c.writeDown() {
		c.known.Cut(first)
		finish(group, errNotKnown)
		return nil
	}
	for i, b := range group {
		if err := b.submit(ctx, c.session); err != nil {
			finish(group[i:], errStopping)
			return err
		}
		b.finish(nil)
	}
	return nil
}

// writeDown makes durable which events are known, and reports whether it has.
func (c *committer) writeDown() bool {
	err := c.known.Sync()
	c.knownErr(err)
	return err == nil
}

func finish(group []*batch, err error) {
	for _, b := range group {
		b.finish(err)
	}
}

// put hands b over and returns once its events are on their way to the disk: they are
// durable when through is, which wait waits for. On an error not all of them are. b is
// the caller's again unless the committer still has it, because ctx was done: then it is
// once done has something.
func (c *committer) put(ctx context.Context, b *batch) (through uint64, has bool, err error) {
	select {
	case c.inbox <- b:
	case <-ctx.Done():
		return 0, false, context.Cause(ctx)
	case <-c.ended:
		return 0, false, errStopping
	}
	select {
	case o := <-b.done: // it always comes, but perhaps late
		return o.through, false, o.err
	case <-ctx.Done():
		return 0, true, context.Cause(ctx)
	}
}

// wait waits until every event up to through is durable.
func (c *committer) wait(ctx context.Context, through uint64) error {
	for {
		changed := c.progress.changed()
		if c.progress.durable() >= through {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.ended:
			// What was settled in time counts.
			if c.progress.durable() >= through {
				return nil
			}
			return errStopping
		}
	}
}
