package kafkasink

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/sinks"
)

// begin makes a session, and learns what Kafka has. With decide it goes on from there, and
// claims the position for self.
//
// It is done again when a coordinator has moved, and until self has claimed when another
// docket that is about to start has fenced it: only one of the two can claim. A coordinator that
// the cluster does not know is found by the next call, on a new cluster.
func (e *exactlyOnce) begin(ctx context.Context, decide sinks.Decide) error {
	again := []kafka.Error{kafka.NotCoordinatorForGroup, kafka.GroupCoordinatorNotAvailable}
	if !e.claimed {
		again = append(again, fencing...)
	}
	err := e.cluster.patiently(ctx, func() error {
		e.session, e.open = nil, false
		return e.beginOnce(ctx, decide)
	}, again...)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// beginOnce is an attempt of begin. It looks twice at what Kafka has: before anything is
// changed there, since self may have no right to; and when nobody else can change it.
func (e *exactlyOnce) beginOnce(ctx context.Context, decide sinks.Decide) error {
	if err := e.prepare(ctx); err != nil {
		return err
	}
	s, err := e.findCoordinators(ctx)
	if err != nil {
		return err
	}
	at, err := e.look(ctx, s, false)
	if err != nil {
		return err
	}
	if decide != nil {
		if _, err := decide(at.Position, at.exists()); err != nil {
			return err
		}
	}
	if s.producer, err = e.cluster.initProducer(ctx, s.transact, e.transactionalID, e.config.transactionTimeout(), passing...); err != nil {
		return e.failf(err, "begin to write as %q", e.transactionalID)
	}
	if err := e.catchUp(ctx, s, at); err != nil {
		return err
	}
	if at, err = e.look(ctx, s, true); err != nil {
		return err
	}
	e.resolve(at)
	e.session = s
	e.numberAnew(s.producer)
	if decide == nil {
		return nil
	}
	position, err := decide(at.Position, at.exists())
	if err != nil {
		e.session = nil
		return err
	}
	return e.claim(ctx, position)
}

func (e *exactlyOnce) findCoordinators(ctx context.Context) (*session, error) {
	s := &session{id: e.transactionalID}
	var err error
	if s.group, err = e.cluster.coordinator(ctx, e.transactionalID, kafka.CoordinatorKeyTypeConsumer); err != nil {
		return nil, e.failf(err, "find the coordinator of group %q", e.transactionalID)
	}
	if s.transact, err = e.cluster.coordinator(ctx, e.transactionalID, kafka.CoordinatorKeyTypeTransaction); err != nil {
		return nil, e.failf(err, "find the coordinator of transactional id %q", e.transactionalID)
	}
	return s, nil
}

// catchUp has the coordinator of the group write an offset, and take it back. What it answers
// before it has written may be older than its log: another one may have taken its place, and
// one that has just started knows no more than it has heard of from its replicas. The mark of
// the end also drops an offset that has been left pending, which would be so for ever.
func (e *exactlyOnce) catchUp(ctx context.Context, s *session, at committed) error {
	if !at.exists() {
		at = committed{Position: e.position, owner: e.self, sent: e.sent}
	}
	if err := e.commitPosition(ctx, s, &at); err != nil {
		return err
	}
	err := e.cluster.patiently(ctx, func() error { return e.cluster.end(ctx, s, false) }, passing...)
	if err != nil {
		return e.failf(err, "end a transaction of group %q", e.transactionalID)
	}
	return nil
}

// look reads the position in Kafka, and judges by its owner. A position of another owner
// is none when self has claimed: it was there before, for another topic.
func (e *exactlyOnce) look(ctx context.Context, s *session, stable bool) (committed, error) {
	var all []offset
	err := e.cluster.patiently(ctx, func() (err error) {
		all, err = e.cluster.groupOffsets(ctx, s.group, e.transactionalID, e.topic.name, stable)
		return err
	}, passing...)
	if err != nil {
		return committed{}, e.failf(err, "read the position of group %q", e.transactionalID)
	}
	var found []committed
	for _, o := range all {
		c, ok, err := parseCommitted(o, e.queue.ID)
		if err != nil {
			return committed{}, sinks.Failf(sinks.Misconfigured, "%w. To continue from the queue's position, delete the position in Kafka: kafka-consumer-groups.sh --bootstrap-server BROKER --delete-offsets --group %s --topic %s",
				err, e.transactionalID, o.topic)
		}
		if ok {
			found = append(found, c)
		}
	}
	return e.judge(found)
}

// judge returns which of found counts, or that another docket has taken over.
//
// An owner that self has not seen before it claimed has come after it. Before that, one
// has come after self if it was started later: self may have been asleep since it began.
func (e *exactlyOnce) judge(found []committed) (at committed, err error) {
	first := e.known == nil
	if first {
		e.known = map[string]bool{}
	}
	for _, c := range found {
		switch {
		case c.owner == e.self || e.known[c.owner.id]:
		case !first && (e.claimed || c.owner.started > e.self.started):
			return at, e.fence(c.owner)
		default:
			e.known[c.owner.id] = true
		}
		if c.owner == e.self || !e.claimed && at.owner != e.self && c.isBehind(at) {
			at = c
		}
	}
	return at, nil
}

// fence is the end of self: another docket has come after it.
func (e *exactlyOnce) fence(by owner) error {
	e.fenced = sinks.Overtaken(fmt.Sprintf("another docket, which was started at %s, has taken over group %q", time.Unix(0, by.started).UTC().Format(time.RFC3339), e.transactionalID))
	e.observer.Fenced()
	return e.fenced
}

// resolve says what has become of a transaction that got no answer: at is what Kafka has
// now that it has ended. All that at tells is whether this one was committed: its offset is
// not believed, since others that may write to the group can have changed it.
func (e *exactlyOnce) resolve(at committed) {
	u := e.unknown
	if u == nil {
		return
	}
	e.unknown = nil
	if at.owner != e.self || at.sent != u.sent {
		e.observer.Aborted()
		return
	}
	e.position = u.Position
	e.observer.Committed(u.Next)
	e.note(u.redriven)
}

// numberAnew has the records of every partition numbered from 0, by p.
func (e *exactlyOnce) numberAnew(p producer) {
	e.producer = p
	for _, q := range e.topic.sequences {
		q.begin(p)
	}
}

// claim makes p the position in Kafka, and self its owner, in a transaction without
// records. Each claim has an owner of its own: another docket may know that of a claim without
// an answer, and would not notice its return.
func (e *exactlyOnce) claim(ctx context.Context, p sinks.Position) error {
	e.known[e.self.id] = true // an old answer may still name it
	e.self.id = newOwnerID()
	c := e.begun(p)
	if err := e.commitPosition(ctx, e.session, c); err != nil {
		return e.giveUp(ctx, err)
	}
	if err := e.commit(ctx, c, nil); err != nil {
		return err
	}
	e.claimed = true
	return nil
}
