package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/sinks"
)

// exactlyOnce is a sink that writes a batch and the position after it in one transaction.
//
// A transaction takes a whole batch. Where brokers are too slow for that, as with a quota, it
// takes a part: otherwise it would be given up each time, and nothing would ever be written.
//
// There is one way to find out what Kafka has, which is that of the start: begin. What
// fails is given up with its session, and the next Send begins another. Its fields are
// owned by Resume, Send and Close.
type exactlyOnce struct {
	*sink
	name     string
	observer sinks.Observer
	self     owner
	queue    sinks.Queue

	session  *session       // nil: the next Send begins one
	open     bool           // a transaction of session may be open
	position sinks.Position // in Kafka
	most     int            // bytes of records in a transaction, if there is more than one
	slowed   bool           // by a broker that asked for a pause in it
	trying   bool           // the transaction is to be undone
	sent     uint64         // transactions that self has begun
	unknown  *unknown       // nil: what became of all of them is known

	claimed bool            // self is an owner in Kafka, or has been
	known   map[string]bool // owners that self comes after; nil: nobody has looked
	fenced  error           // another owner has come after self: nothing is written any more

	// Redriven records that Kafka has, and of which the delivery does not know. The few whose
	// dead letters are purged meanwhile stay until Close.
	redriven map[uint64]bool
}

// unknown is a transaction that was to be committed, and got no answer.
type unknown struct {
	*committed
	redriven []uint64 // the seqs in it of which the position says nothing
}

// The bounds of exactlyOnce.most.
const (
	unbounded = 512 << 20 // twice of it fits into 32 bits
	leastPart = 16 << 10
)

func newExactlyOnce(s *sink, env sinks.Env) *exactlyOnce {
	e := &exactlyOnce{
		sink:     s,
		name:     env.Name,
		observer: env.Transactions,
		most:     unbounded,
		self:     owner{id: newOwnerID(), started: time.Now().UnixNano()},
	}
	if e.observer == nil {
		e.observer = unobserved{}
	}
	return e
}

// unobserved is an observer that nobody has asked for.
type unobserved struct{}

func (unobserved) Committed(uint64) {}
func (unobserved) Aborted()         {}
func (unobserved) Fenced()          {}

// Resume implements sinks.Resuming.
func (e *exactlyOnce) Resume(ctx context.Context, queue sinks.Queue, decide sinks.Decide) error {
	if e.fenced != nil {
		return e.fenced
	}
	if err := e.connect(ctx); err != nil {
		return err
	}
	e.transactionalID = "docket-" + queue.ID + "-" + e.name
	e.queue = queue
	err := e.begin(ctx, decide)
	e.reconsider(err)
	return err
}

// Send implements sinks.Sink.
func (e *exactlyOnce) Send(ctx context.Context, b sinks.Batch) error {
	switch {
	case e.fenced != nil:
		return e.fenced
	case !e.claimed:
		return sinks.Failf(sinks.Transient, "write to topic %q: the sink has not been resumed", e.topic.name)
	case len(b.Items) == 0:
		return nil
	}
	if pause := time.Until(e.resumeAt); pause > 0 {
		return e.throttled(pause)
	}
	if err := e.connect(ctx); err != nil {
		return err
	}
	if e.open { // the Send before was cut short
		e.session, e.open = nil, false
	}
	err := e.sendAll(ctx, b)
	e.reconsider(err)
	return err
}

func (e *exactlyOnce) sendAll(ctx context.Context, b sinks.Batch) error {
	if e.session == nil {
		if err := e.begin(ctx, nil); err != nil {
			return err
		}
	}
	for sent := 0; sent < len(b.Items); {
		part, size := e.part(b)
		sent = len(part.Items)
		if err := e.sendPart(ctx, part, size); err != nil {
			return err
		}
		e.note(redriven(part))
	}
	for _, seq := range redriven(b) {
		delete(e.redriven, seq)
	}
	return nil
}

// note keeps in mind that Kafka has redriven records.
func (e *exactlyOnce) note(seqs []uint64) {
	if e.redriven == nil {
		e.redriven = map[uint64]bool{}
	}
	for _, seq := range seqs {
		e.redriven[seq] = true
	}
}

// part is the beginning of b that the next transaction takes, and how many bytes of records
// it has that Kafka does not have.
func (e *exactlyOnce) part(b sinks.Batch) (part sinks.Batch, size int) {
	part = b
	for i := range b.Items {
		it := &b.Items[i]
		if e.has(it) {
			continue
		}
		if size > 0 && size+len(it.Record) > e.most {
			part.Items = b.Items[:i]
			break
		}
		size += len(it.Record)
	}
	return part, size
}

// sendPart sends b in a transaction. The ones after it are smaller where brokers are too slow
// for one of size bytes, and larger again when they are no longer.
func (e *exactlyOnce) sendPart(ctx context.Context, b sinks.Batch, size int) error {
	if err := e.share(ctx, b, e.has); err != nil {
		return err
	}
	e.began, e.slowed = time.Now(), false
	err := e.transact(ctx, b)
	slow := e.slowed || time.Since(e.began) > time.Duration(e.config.Timeout)
	switch {
	case err == nil && !slow:
		e.most = min(2*e.most, unbounded)
	case err != nil && slow && sinks.FailureOf(err).Kind != sinks.Rejected:
		e.most = max(size/2, leastPart)
	}
	return err
}

// has says whether Kafka has it.
func (e *exactlyOnce) has(it *sinks.Item) bool {
	if it.Late == sinks.Redriven {
		return e.redriven[it.Seq]
	}
	return it.Seq < e.position.Next
}

// transact writes what share has left of b, and the position after it.
func (e *exactlyOnce) transact(ctx context.Context, b sinks.Batch) error {
	partitions := e.shared()
	if len(partitions) == 0 {
		return nil
	}
	c := e.begun(after(e.position, b))
	if err := e.cluster.addPartitions(ctx, e.session, e.topic.name, partitions); err != nil {
		return e.giveUp(ctx, e.failf(err, "begin a transaction with topic %q", e.topic.name))
	}
	// The position goes before the records: brokers ask the coordinator whether they are
	// part of a transaction, and beside each other the questions cost more time.
	if err := e.commitPosition(ctx, e.session, c); err != nil {
		return e.giveUp(ctx, err)
	}
	res := e.writeAll(ctx, b)
	if res.throttle > 0 {
		e.resumeAt, e.slowed = time.Now().Add(res.throttle), true
	}
	if err := res.failure(ctx); err != nil {
		return e.giveUp(ctx, err)
	}
	if res.throttle > 0 && !e.pauseInside(ctx, res.throttle) { // until then the broker answers nothing
		return e.giveUp(ctx, e.throttled(res.throttle))
	}
	if e.trying {
		return e.giveUp(ctx, errUndone)
	}
	return e.commit(ctx, c, redriven(b))
}

// errUndone is why a transaction of Try is given up whose records the brokers have accepted.
var errUndone = errors.New("the transaction was to be undone")

// Try implements sinks.Trying.
func (e *exactlyOnce) Try(ctx context.Context, b sinks.Batch) error {
	e.trying = true
	defer func() { e.trying = false }()
	err := e.Send(ctx, b)
	if errors.Is(err, errUndone) {
		return nil
	}
	return err
}

// shared lists the partitions that share has records for.
func (e *exactlyOnce) shared() (partitions []int32) {
	for partition, share := range e.topic.shares {
		if len(share) > 0 {
			partitions = append(partitions, int32(partition))
		}
	}
	return partitions
}

// begun counts a transaction, and returns what it commits with the position p.
func (e *exactlyOnce) begun(p sinks.Position) *committed {
	e.sent++
	e.open = true
	return &committed{Position: p, owner: e.self, sent: e.sent}
}

// commitPosition makes c the position when the transaction is committed.
func (e *exactlyOnce) commitPosition(ctx context.Context, s *session, c *committed) error {
	err := e.cluster.commitOffset(ctx, s, e.topic.name, c)
	if err == nil {
		return nil
	}
	if errors.Is(err, kafka.TopicAuthorizationFailed) {
		return sinks.Failf(sinks.Misconfigured, "commit the position of group %q: %w: %s", e.transactionalID, err, permitToRead(e.topic.name))
	}
	return e.failf(err, "commit the position of group %q", e.transactionalID)
}

// permitToRead is what an operator has to do, since an offset of a topic takes that.
func permitToRead(topic string) string {
	return fmt.Sprintf("permit this client to read from topic %q too", topic)
}

// commit ends the transaction that has c. redriven are seqs in it.
func (e *exactlyOnce) commit(ctx context.Context, c *committed, redriven []uint64) error {
	err := e.cluster.patiently(ctx, func() error { return e.cluster.end(ctx, e.session, true) }, passing...)
	if err != nil {
		e.unknown = &unknown{c, redriven}
		return e.leave(ctx, e.failf(err, "commit a transaction with topic %q", e.topic.name))
	}
	e.open, e.position = false, c.Position
	e.observer.Committed(c.Next)
	return nil
}

// giveUp is the failure of a transaction whose commit has not been asked for.
func (e *exactlyOnce) giveUp(ctx context.Context, err error) error {
	e.observer.Aborted()
	return e.leave(ctx, err)
}

// leave is the failure of a transaction, which is aborted at once, so that readers do not
// wait for its end. Where that fails, the next session ends it, or its coordinator.
func (e *exactlyOnce) leave(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err() // Close aborts it
	}
	e.abort(ctx)
	return err
}

// abortTimeout bounds an abort: what has failed may be that a broker does not answer.
const abortTimeout = 2 * time.Second

// abort makes one attempt, whatever comes of it.
func (e *exactlyOnce) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, abortTimeout)
	defer cancel()
	_ = e.cluster.end(ctx, e.session, false)
	e.session, e.open = nil, false
}

// Close implements sinks.Sink. It aborts a transaction that a Send has left which was cut short.
func (e *exactlyOnce) Close(ctx context.Context) error {
	if e.open && e.cluster != nil {
		e.abort(ctx)
	}
	return e.sink.Close(ctx)
}

// redriven lists the seqs in b of which a position says nothing.
func redriven(b sinks.Batch) []uint64 {
	var seqs []uint64
	for i := range b.Items {
		if b.Items[i].Late == sinks.Redriven {
			seqs = append(seqs, b.Items[i].Seq)
		}
	}
	return seqs
}

// after is the position when b has been written behind p.
func after(p sinks.Position, b sinks.Batch) sinks.Position {
	for i := range b.Items {
		if it := &b.Items[i]; it.Late != sinks.Redriven && it.Seq >= p.Next {
			p.Next = it.Seq + 1
		}
	}
	return p
}
