package kafkasink

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/fakekafka"
	"github.com/docket-export/docket/sinks"
)

// world is a queue, its sink's place in it, and the brokers that the sink writes to. All of
// it outlives a process of docket.
type world struct {
	*fakekafka.Cluster
	t         testing.TB
	model     model
	processes int
	deaths    int

	mu       sync.Mutex
	items    []sinks.Item   // of the queue, by seq from 1; guarded by mu
	account  account        // guarded by mu
	setAside []uint64       // the seqs of dead letters; guarded by mu
	wanted   map[copyOf]int // guarded by mu
}

// model is how the dockets of a world are.
type model struct {
	once   bool // with transactions
	change func(*Config)
	behind int  // batches that the cursor falls back when a process dies
	grows  bool // a batch that failed is offered with records behind it
	beside bool // dead letters are redriven when a batch has failed
	leaves bool // a docket that is interrupted ends, and another begins
}

// account is what a queue knows of a sink.
type account struct {
	next     uint64
	replayed int64
	from     uint64 // since that is asked for, durably; 1: no replay has been
	through  uint64 // records up to here are replayed
}

// copyOf is a record in Kafka, as a consumer tells it from others.
type copyOf struct {
	seq  uint64
	late sinks.Late
}

const (
	modelTopic      = "decisions"
	modelPartitions = 2
	modelBatch      = 3 // records of a Send
	// modelAttempts is more than the faults of a test need.
	modelAttempts = 40
)

func newWorld(t testing.TB, m model) *world {
	return &world{
		Cluster: fakekafka.Start(t, 3, modelPartitions, modelTopic),
		t:       t,
		model:   m,
		account: account{next: 1, from: 1},
		wanted:  map[copyOf]int{},
	}
}

// store puts n records in the queue. Their partitions take turns.
func (w *world) store(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		seq := uint64(len(w.items) + 1)
		w.items = append(w.items, sinks.Item{
			Seq:      seq,
			Source:   "webhook",
			Received: time.Date(2026, 1, 5, 10, 4, 7, int(seq), time.UTC),
			Record:   fmt.Appendf(nil, `{"n":%d}`, seq),
		})
		w.wanted[copyOf{seq, sinks.OnTime}]++
	}
}

// replay sets the sink back to seq.
func (w *world) replay(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.account.through = w.account.next - 1
	for again := seq; again < w.account.next; again++ {
		w.wanted[copyOf{again, sinks.Replayed}]++
	}
	w.account.next, w.account.from = seq, seq
	w.account.replayed++
}

// recreate deletes the topic with all that is in it, and creates it again.
func (w *world) recreate() {
	w.t.Helper()
	if err := errors.Join(w.DeleteTopic(modelTopic), w.CreateTopic(modelTopic, modelPartitions, nil)); err != nil {
		w.t.Fatalf("recreate the topic: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.wanted, func(c copyOf, _ int) bool { return c.seq < w.account.next })
}

// permit has the brokers take records that they have refused. Requests of before are through.
func (w *world) permit() {
	w.t.Helper()
	if err := w.Settle(); err != nil {
		w.t.Fatalf("Settle = %v", err)
	}
	w.Refuse("")
}

// prepareNext keeps the next commit prepared until somebody has asked for it three times.
func (w *world) prepareNext() {
	next := fakekafka.Point{Key: kmsg.EndTxn, Nth: w.Counts()[kmsg.EndTxn] + 1}
	w.Arm(fakekafka.Fault{At: next, Effect: fakekafka.Prepare, Wait: 3})
}

// process is a docket that serves the sink.
type process struct {
	*world
	name    string
	sink    sinks.Sink
	ctx     context.Context
	die     func()
	account account                            // what it goes by; the world's follows
	resumed bool                               // the sink
	calls   atomic.Pointer[context.CancelFunc] // ends the call under way
	ghost   atomic.Bool                        // another has its queue
}

// start starts a docket. Its first request is yet to come.
func (w *world) start() *process {
	w.mu.Lock()
	w.processes++
	p := &process{world: w, name: fmt.Sprintf("docket-%d", w.processes), account: w.account}
	w.mu.Unlock()
	p.ctx, p.die = context.WithCancel(context.Background())
	w.t.Cleanup(p.die)
	w.OnDeath(p.name, p.die)
	w.OnInterrupt(p.name, func() { (*p.calls.Load())() })
	c := defaultConfig()
	c.Brokers, c.Timeout, c.ClientID = w.ListenAddrs(), config.Duration(ample), p.name
	c.Topic, c.Partitioner = modelTopic, RoundRobin
	if w.model.once {
		c.Delivery = ExactlyOnce
	}
	if w.model.change != nil {
		w.model.change(c)
	}
	if err := c.Validate().Err(); err != nil {
		w.t.Fatalf("Validate = %v, want nothing wrong", err)
	}
	var err error
	if p.sink, err = c.Open(p.ctx, sinks.Env{Name: "bus", Log: slog.New(slog.DiscardHandler)}); err != nil {
		w.t.Fatalf("Open = %v, want nil", err)
	}
	w.t.Cleanup(func() { p.sink.Close(context.Background()) })
	return p
}

// group is where the position is.
const group = "docket-" + queueID + "-bus"

// restart starts a docket after p has ended. A part of what p knew of its place in the queue
// has not come to disk.
func (p *process) restart() *process {
	p.sink.Close(context.Background())
	p.mu.Lock()
	back := uint64(p.model.behind * modelBatch)
	p.world.account.next = max(p.world.account.from, p.world.account.next-min(p.world.account.next, back))
	p.mu.Unlock()
	return p.start()
}

var (
	// errFenced says that another docket has taken over.
	errFenced = errors.New("fenced")
	// errLeft says that a docket was interrupted.
	errLeft = errors.New("left")
	// errAhead says that Kafka has records that the queue does not know.
	errAhead = errors.New("position ahead")
)

// attempt has do succeed, as the delivery loop does. Its error is errFenced, errAhead, errLeft,
// a *sinks.Failure that is Rejected, or that p is dead.
func (p *process) attempt(do func(context.Context) error) error {
	var err error
	for range modelAttempts {
		ctx, interrupt := context.WithCancel(p.ctx)
		p.calls.Store(&interrupt)
		err = do(ctx)
		interrupted := ctx.Err() != nil
		interrupt()
		if p.ctx.Err() != nil {
			return p.ctx.Err()
		}
		if interrupted && p.model.leaves {
			return errLeft
		}
		if err == nil || errors.Is(err, errAhead) {
			return err
		}
		switch f := sinks.FailureOf(err); {
		case f.Kind == sinks.Rejected:
			return f
		case f.Reason == sinks.Fenced:
			return errFenced
		case f.Kind != sinks.Transient:
			return fmt.Errorf("%v: %w", f.Kind, err)
		}
		time.Sleep(time.Millisecond) // the backoff of the delivery loop
	}
	return fmt.Errorf("no success after %d attempts: %w", modelAttempts, err)
}

// resume has a sink with transactions go on where Kafka is.
func (p *process) resume() error {
	t, ok := p.sink.(sinks.Resuming)
	if !ok || p.resumed {
		return nil
	}
	var decided sinks.Position
	err := p.attempt(func(ctx context.Context) error {
		return t.Resume(ctx, testQueue, func(at sinks.Position, found bool) (sinks.Position, error) {
			var err error
			decided, err = p.decide(at, found)
			return decided, err
		})
	})
	if err != nil {
		return err
	}
	p.resumed = true
	p.account.next, p.account.replayed = decided.Next, decided.Replayed
	p.save()
	return nil
}

// decide says where to go on when Kafka is at a position.
func (p *process) decide(at sinks.Position, found bool) (sinks.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	here := sinks.Position{Next: p.account.next, Replayed: p.account.replayed, Lineage: testQueue.Lineage}
	switch {
	case !found, at.Replayed < here.Replayed, at.Replayed == here.Replayed && at.Next <= here.Next:
		return here, nil
	case here.Replayed != 0 && at.Replayed > here.Replayed, at.Next > uint64(len(p.items)+1):
		return sinks.Position{}, errAhead
	case !slices.Equal(at.Lineage, here.Lineage):
		return sinks.Position{}, fmt.Errorf("%w: it has %v", errAhead, at.Lineage)
	}
	return at, nil
}

// save has the world know what p does.
func (p *process) save() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ghost.Load() {
		p.world.account = p.account
	}
}

// deliver sends what the queue has for the sink up to last.
func (p *process) deliver(last uint64) error {
	if err := p.resume(); err != nil {
		return err
	}
	for p.account.next <= last {
		size := uint64(modelBatch)
		err := p.attempt(func(ctx context.Context) error {
			err := p.send(ctx, p.batch(p.account.next, min(last, p.account.next+size-1)))
			if err != nil && p.model.grows {
				size++
			}
			if err != nil && p.model.beside {
				_ = p.redriveOnce(ctx) // they are tried again
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// batch has the records from first to last, but dead letters.
func (p *process) batch(first, last uint64) sinks.Batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := sinks.Batch{Queue: queueID}
	for _, it := range p.items[first-1 : last] {
		if slices.Contains(p.setAside, it.Seq) {
			continue
		}
		if it.Seq <= p.account.through {
			it.Late = sinks.Replayed
		}
		b.Items = append(b.Items, it)
	}
	return b
}

// send makes one attempt at b. It sets aside what is rejected, and moves the cursor behind b.
func (p *process) send(ctx context.Context, b sinks.Batch) error {
	last := b.Items[len(b.Items)-1].Seq
	for len(b.Items) > 0 {
		err := p.sink.Send(ctx, b)
		if err == nil {
			break
		}
		f := sinks.FailureOf(err)
		if f.Kind != sinks.Rejected {
			return err
		}
		b = p.without(b, f.Items)
	}
	p.account.next = last + 1
	p.save()
	return nil
}

// without sets aside the items of b at the given indexes, and returns the rest.
func (p *process) without(b sinks.Batch, indexes []int) sinks.Batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := sinks.Batch{Queue: b.Queue}
	for i, it := range b.Items {
		if !slices.Contains(indexes, i) {
			rest.Items = append(rest.Items, it)
			continue
		}
		p.setAside = append(p.setAside, it.Seq)
		delete(p.wanted, copyOf{it.Seq, it.Late})
	}
	return rest
}

// redrive sends dead letters again.
func (p *process) redrive() error {
	if err := p.resume(); err != nil {
		return err
	}
	return p.attempt(p.redriveOnce)
}

// redriveOnce makes one attempt at all dead letters.
func (p *process) redriveOnce(ctx context.Context) error {
	b := sinks.Batch{Queue: queueID}
	p.mu.Lock()
	for _, seq := range p.setAside {
		it := p.items[seq-1]
		it.Late = sinks.Redriven
		b.Items = append(b.Items, it)
	}
	p.mu.Unlock()
	if err := p.sink.Send(ctx, b); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setAside = nil
	for _, it := range b.Items {
		p.wanted[copyOf{it.Seq, it.Late}]++
	}
	return nil
}

// run has do be done by dockets, one after the other as they die.
func (w *world) run(p *process, do func(*process) error) *process {
	w.t.Helper()
	for {
		err := do(p)
		if err == nil {
			return p
		}
		if p.ctx.Err() == nil && !errors.Is(err, errLeft) {
			w.t.Fatalf("%s: %v", p.name, err)
		}
		if w.deaths++; w.deaths > 5 {
			w.t.Fatalf("%d dockets have died, the last with %v", w.deaths, err)
		}
		p = p.restart()
	}
}

// finding is a record that the brokers hold more or less often than they should.
type finding struct {
	copyOf
	got, want int
}

// judge compares what consumers see with the queue: each record as often as it is wanted, or
// at least so often where twice may be, and in order.
func (w *world) judge(twice func(copyOf) bool) {
	w.t.Helper()
	if err := w.Settle(); err != nil {
		w.t.Fatalf("Settle = %v", err)
	}
	got := map[copyOf]int{}
	for partition := range int32(modelPartitions) {
		records, err := w.Committed(modelTopic, partition)
		if err != nil {
			w.t.Errorf("read partition %d: %v", partition, err)
		}
		w.judgePartition(fmt.Sprintf("partition %d", partition), records, got)
	}
	var wrong []finding
	for c, n := range got {
		if want := w.wanted[c]; n != want && (n < want || want == 0 || !twice(c)) {
			wrong = append(wrong, finding{c, n, want})
		}
	}
	for c, want := range w.wanted {
		if got[c] == 0 {
			wrong = append(wrong, finding{c, 0, want})
		}
	}
	slices.SortFunc(wrong, func(a, b finding) int { return cmp.Compare(a.seq, b.seq) })
	for _, f := range wrong {
		w.t.Errorf("record %d %s is there %d times, want %d", f.seq, f.late, f.got, f.want)
	}
}

func anyTwice(copyOf) bool  { return true }
func noneTwice(copyOf) bool { return false }

// judgePartition counts the records of a partition and looks at their bytes and their order,
// which goes by the first copy of each.
func (w *world) judgePartition(name string, records []fakekafka.Record, got map[copyOf]int) {
	w.t.Helper()
	last := map[sinks.Late]uint64{}
	for _, r := range records {
		seq, err := strconv.ParseUint(r.Headers["docket-seq"], 10, 64)
		if err != nil || seq == 0 || seq > uint64(len(w.items)) {
			w.t.Errorf("%s has a record with docket-seq %q, want one of the queue", name, r.Headers["docket-seq"])
			continue
		}
		if !bytes.Equal(r.Value, w.items[seq-1].Record) {
			w.t.Errorf("%s has %s as record %d, want %s", name, r.Value, seq, w.items[seq-1].Record)
		}
		c := copyOf{seq, sinks.Late(r.Headers["docket-late"])}
		if got[c]++; got[c] > 1 {
			continue
		}
		if seq < last[c.late] && c.late != sinks.Redriven {
			w.t.Errorf("%s has record %d behind record %d", name, seq, last[c.late])
		}
		last[c.late] = max(last[c.late], seq)
	}
}

// wantPosition wants the position in Kafka to be next.
func (w *world) wantPosition(next uint64) {
	w.t.Helper()
	if got, err := w.Offset(group, modelTopic, 0); got != int64(next) || err != nil {
		w.t.Errorf("the position in Kafka is %d, %v, want %d", got, err, next)
	}
}
