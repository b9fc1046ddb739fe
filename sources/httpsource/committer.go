package httpsource

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/feed"
)

// maxStreams bounds the sessions that are open for peers with nothing under way.
const maxStreams = 64

var (
	errStopping  = errors.New("docket is stopping: send the body again")
	errTakenOver = errors.New("another source of this name has taken over")
)

// committer brings batches into the queue, each event once. The events of a peer are the
// numbered lines of one producer. Which events are known is in memory alone: at the start
// it is learned again from the records that the queue still has. Everything but put and
// wait belongs to the goroutine that calls run.
type committer struct {
	in    sources.Intake
	env   sources.Env
	keep  Protocol
	evict context.CancelCauseFunc // ends whoever runs the committer

	ids     ids
	streams map[peerKey]*stream
	inbox   chan *batch
	ended   chan struct{} // closed when no batch is taken any more
}

// stream is the events of one peer on their way.
type stream struct {
	session  sources.Session
	next     uint64
	progress *progress
}

func newCommitter(in sources.Intake, env sources.Env, p Protocol, evict context.CancelCauseFunc) *committer {
	return &committer{
		in: in, env: env, keep: p, evict: evict,
		streams: make(map[peerKey]*stream), inbox: make(chan *batch), ended: make(chan struct{}),
	}
}

// producer is the name of what a peer sends.
func (c *committer) producer(peer peerKey) string {
	if peer == (peerKey{}) {
		return feed.Producer(c.env.Name, "events")
	}
	return feed.Producer(c.env.Name, "events", hex.EncodeToString(peer[:]))
}

// learn takes up which events the queue has. An event whose identity is redacted is not
// known again.
func (c *committer) learn(ctx context.Context) error {
	if c.env.Stored == nil {
		return nil
	}
	anyone := c.producer(peerKey{})
	var scratch []byte
	return c.env.Stored(ctx, func(producer string, record []byte) {
		var peer peerKey
		of, isPeer := strings.CutPrefix(producer, anyone+"/")
		if n, err := hex.Decode(peer[:], []byte(of[:min(len(of), 2*len(peer))])); isPeer && (err != nil || n != len(peer)) || !isPeer && producer != anyone {
			return
		}
		scratch = c.keep.Identity(scratch[:0], record)
		if i := idOf(peer, scratch); i != (id{}) {
			c.ids.add(i, 0)
			c.ids.trim(func(peerKey) uint64 { return 0 })
		}
	})
}

// open opens the session of a peer where its numbers ended.
func (c *committer) open(ctx context.Context, peer peerKey) (*stream, error) {
	for key, s := range c.streams {
		if len(c.streams) >= maxStreams && s.progress.durable() == s.next-1 {
			s.session.Close()
			delete(c.streams, key)
		}
	}
	s := &stream{progress: new(progress)}
	opening := func(next uint64, evict func()) sources.Opening {
		return sources.Opening{
			Source: c.env.Name, Producer: c.producer(peer), Next: next, Evict: evict,
			Settled: func(r sources.Receipt) { s.progress.advance(r.Through) },
		}
	}
	// Only the intake knows where they ended, and whom it tells has said already which number
	// comes next: hence a session for asking alone.
	session, acked, err := c.in.Open(ctx, opening(1, func() {}))
	if err != nil {
		return nil, err
	}
	session.Close()
	s.next = acked + 1
	s.progress.advance(acked)
	if s.session, acked, err = c.in.Open(ctx, opening(s.next, func() { c.evict(errTakenOver) })); err != nil {
		return nil, err
	}
	if acked >= s.next { // it would take what comes for what it has
		s.session.Close()
		return nil, fmt.Errorf("the queue has %d events of this source that are unknown: another source uses its name", acked-s.next+1)
	}
	c.streams[peer] = s
	return s, nil
}

// run takes batches until stop is closed, and then settles what it has submitted. An
// error means that ctx is done or the exporter is stopping.
func (c *committer) run(ctx context.Context, stop <-chan struct{}) error {
	defer func() {
		for _, s := range c.streams {
			s.session.Close()
		}
	}()
	defer close(c.ended)
	for {
		select {
		case b := <-c.inbox:
			if err := c.commit(ctx, b); err != nil {
				return err
			}
		case <-stop:
			for _, s := range c.streams {
				if err := s.session.Settle(ctx); err != nil {
					return err
				}
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// commit puts the events of a batch on their way to the disk, and tells who waits. An error
// is that of run.
func (c *committer) commit(ctx context.Context, b *batch) error {
	s, err := c.streams[b.peer], error(nil)
	if s == nil {
		s, err = c.open(ctx, b.peer)
	}
	var through uint64
	if err == nil {
		through = c.number(b, s)
		err = b.submit(ctx, s.session)
	}
	if err != nil {
		b.done <- outcome{err: errStopping}
		return err
	}
	b.done <- outcome{s, through, nil}
	return nil
}

// number gives the events their numbers, and drops those that have one already. Once through is
// durable, every event of the batch is.
func (c *committer) number(b *batch, s *stream) (through uint64) {
	lines, events, start := b.lines[:0], b.events[:0], 0
	for _, e := range b.events {
		number, isKnown := c.ids.numbers[e.id]
		if isKnown {
			b.duplicates++
		} else {
			number = s.next
			s.next++
			lines = append(lines, b.lines[start:e.end]...) // which moves it to the left, if at all
			events = append(events, e)
			if e.id != (id{}) {
				c.ids.add(e.id, number)
			}
		}
		through = max(through, number)
		start = e.end
	}
	b.lines, b.events = lines, events
	if n := uint64(len(b.tooLarge)); n > 0 {
		s.next += n
		through = s.next - 1
	}
	c.ids.trim(func(peer peerKey) uint64 {
		if s := c.streams[peer]; s != nil {
			return s.progress.durable()
		}
		return 1<<64 - 1 // what its session had is durable
	})
	return through
}

// put hands b over and returns once its events are on their way to the disk: they are durable
// when what wait waits for is. On an error not all of them are. The committer still has b if
// has is true, because ctx was done: then b is free once done has something.
func (c *committer) put(ctx context.Context, b *batch) (o outcome, has bool, err error) {
	select {
	case c.inbox <- b:
	case <-ctx.Done():
		return o, false, context.Cause(ctx)
	case <-c.ended:
		return o, false, errStopping
	}
	select {
	case o := <-b.done: // it always comes, but perhaps late
		return o, false, o.err
	case <-ctx.Done():
		return o, true, context.Cause(ctx)
	}
}

// wait waits until everything that was put is durable.
func (c *committer) wait(ctx context.Context, o outcome) error {
	for o.stream != nil {
		changed := o.stream.progress.changed()
		if o.stream.progress.durable() >= o.through {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.ended:
			// What was settled in time counts.
			if o.stream.progress.durable() >= o.through {
				return nil
			}
			return errStopping
		}
	}
	return nil
}
