package kafkasink

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/internal/fakekafka"
	"github.com/docket-export/docket/sinks"
)

// story is what happens in a world, whatever the faults.
type story struct {
	name string
	m    model
	tell func(t *testing.T, w *world)
}

// faultsAt are those at each request that a story makes when nothing fails, of those that
// effects lists for its kind.
func (s story) faultsAt(t *testing.T, effects map[kmsg.Key][]fakekafka.Fault) []fakekafka.Fault {
	w := newWorld(t, s.m)
	s.tell(t, w)
	counts := w.Counts()
	var all []fakekafka.Fault
	for _, key := range fakekafka.Judged {
		for nth := range counts[key] {
			for _, f := range effects[key] {
				f.At = fakekafka.Point{Key: key, Nth: nth + 1}
				all = append(all, f)
			}
		}
	}
	return all
}

// each tells s once with each of faults; short runs with one of twice so many, and always with a
// commit that stays prepared, which is what the stable read is for.
func (s story) each(t *testing.T, ofSoMany uint32, faults []fakekafka.Fault) {
	t.Run(s.name, func(t *testing.T) {
		for _, f := range faults {
			// The sum of a name is as good as a die, and the same every time.
			chosen := crc32.ChecksumIEEE([]byte(f.String()))%(2*ofSoMany) == 0 || f.Effect == fakekafka.PrepareLost && f.Wait > 0
			if testing.Short() && !chosen {
				continue
			}
			t.Run(f.String(), func(t *testing.T) {
				t.Parallel()
				s.told(t, f)
			})
		}
	})
}

func (s story) told(t *testing.T, faults ...fakekafka.Fault) {
	w := newWorld(t, s.m)
	w.Arm(faults...)
	s.tell(t, w)
}

// pairs tells s with two faults at a time, which dice choose.
func (s story) pairs(t *testing.T, faults []fakekafka.Fault, tries int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	t.Run(s.name, func(t *testing.T) {
		for range tries {
			one, other := faults[dice.IntN(len(faults))], faults[dice.IntN(len(faults))]
			if one.At == other.At {
				continue
			}
			t.Run(one.String()+"+"+other.String(), func(t *testing.T) {
				t.Parallel()
				s.told(t, one, other)
			})
		}
	})
}

// everywhere has every kind of request meet each of faults.
func everywhere(faults ...fakekafka.Fault) map[kmsg.Key][]fakekafka.Fault {
	all := map[kmsg.Key][]fakekafka.Fault{}
	for _, key := range fakekafka.Judged {
		all[key] = slices.Clone(faults)
	}
	return all
}

// answers are faults in which a broker answers with one of codes and does nothing.
func answers(codes ...*kerr.Error) []fakekafka.Fault {
	var all []fakekafka.Fault
	for _, code := range codes {
		all = append(all, fakekafka.Fault{Effect: fakekafka.Answer, Code: code})
	}
	return all
}

var (
	cuts = []fakekafka.Fault{
		{Effect: fakekafka.CutBefore}, {Effect: fakekafka.CutAfter},
		{Effect: fakekafka.Late}, {Effect: fakekafka.Late, Wait: 2}, {Effect: fakekafka.Late, Wait: 7},
		{Effect: fakekafka.MoveBefore},
	}
	deaths = []fakekafka.Fault{{Effect: fakekafka.DieBefore}, {Effect: fakekafka.DieAfter}}
)

// Whatever is cut and whoever dies, no record is lost, and each partition keeps its order.
func TestModelAtLeastOnce(t *testing.T) {
	for _, idempotence := range []Idempotence{On, Off} {
		s := story{
			name: "idempotence " + string(idempotence),
			m:    model{change: func(c *Config) { c.Idempotence = idempotence }, grows: true, behind: 1},
			tell: func(_ *testing.T, w *world) {
				w.store(12)
				p := w.run(w.start(), func(p *process) error { return p.deliver(9) })
				w.run(p.restart(), func(p *process) error { return p.deliver(12) })
				w.judge(anyTwice)
			},
		}
		faults := s.faultsAt(t, everywhere(slices.Concat(cuts, deaths)...))
		s.each(t, 3, faults)
	}
}

// While one docket runs, no record is there twice.
func TestModelIdempotent(t *testing.T) {
	effects := everywhere(cuts...)
	effects[kmsg.Produce] = slices.Concat(cuts, answers(kerr.NotEnoughReplicas, kerr.RequestTimedOut, kerr.NotLeaderForPartition), []fakekafka.Fault{
		{Effect: fakekafka.AnswerAfter, Code: kerr.NotEnoughReplicasAfterAppend},
		{Effect: fakekafka.AnswerAfter, Code: kerr.RequestTimedOut},
	})
	for _, grows := range []bool{false, true} {
		s := story{
			name: fmt.Sprintf("grows %v", grows),
			m:    model{grows: grows},
			tell: func(_ *testing.T, w *world) {
				w.store(15)
				w.Refuse(`"n":8,`)
				p := w.run(w.start(), func(p *process) error { return p.deliver(12) })
				w.permit()
				p = w.run(p, (*process).redrive)
				w.run(p, func(p *process) error { return p.deliver(15) })
				w.judge(noneTwice)
			},
		}
		faults := s.faultsAt(t, effects)
		s.each(t, 3, faults)
		if !testing.Short() {
			s.pairs(t, faults, 300)
		}
	}
}

// When other records come before those of a request without an answer, records may be there
// twice, and none is lost.
func TestModelRedriveBetween(t *testing.T) {
	s := story{
		name: "idempotent",
		m:    model{beside: true},
		tell: func(_ *testing.T, w *world) {
			w.store(15)
			w.Refuse(`"topic":"decisions"`)
			p := w.run(w.start(), func(p *process) error { return p.deliver(9) })
			w.permit()
			p = w.run(p, func(p *process) error { return p.deliver(15) })
			w.run(p, (*process).redrive)
			w.judge(anyTwice)
		},
	}
	s.each(t, 1, s.faultsAt(t, map[kmsg.Key][]fakekafka.Fault{kmsg.Produce: cuts}))
}

// A topic that is recreated knows nothing of what was written to the one before.
func TestModelTopicIsRecreated(t *testing.T) {
	for _, once := range []bool{false, true} {
		s := story{
			name: fmt.Sprintf("once %v", once),
			m:    model{once: once},
			tell: func(_ *testing.T, w *world) {
				w.store(6)
				p := w.run(w.start(), func(p *process) error { return p.deliver(6) })
				if err := w.Settle(); err != nil {
					w.t.Fatalf("Settle = %v", err)
				}
				w.recreate()
				w.store(6)
				w.run(p, func(p *process) error { return p.deliver(12) })
				w.judge(noneTwice)
				if once {
					w.wantPosition(13)
				}
			},
		}
		s.each(t, 5, s.faultsAt(t, everywhere(fakekafka.Fault{Effect: fakekafka.CutBefore}, fakekafka.Fault{Effect: fakekafka.CutAfter})))
	}
}

// transactionFaults are all that a sink with transactions must survive.
func transactionFaults() map[kmsg.Key][]fakekafka.Fault {
	effects := everywhere(slices.Concat(cuts, deaths, []fakekafka.Fault{{Effect: fakekafka.Expire}}, answers(kerr.NotCoordinator, kerr.CoordinatorLoadInProgress))...)
	after := func(code *kerr.Error) fakekafka.Fault {
		return fakekafka.Fault{Effect: fakekafka.AnswerAfter, Code: code}
	}
	busy := fakekafka.Fault{Effect: fakekafka.Answer, Code: kerr.ConcurrentTransactions, Wait: 2}
	add := func(key kmsg.Key, faults ...fakekafka.Fault) { effects[key] = append(effects[key], faults...) }
	for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn} {
		add(key, busy)
	}
	for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		add(key, answers(kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.InvalidTxnState)...)
	}
	add(kmsg.EndTxn,
		after(kerr.CoordinatorNotAvailable), after(kerr.RequestTimedOut),
		fakekafka.Fault{Effect: fakekafka.Prepare}, fakekafka.Fault{Effect: fakekafka.Prepare, Wait: 3},
		fakekafka.Fault{Effect: fakekafka.PrepareLost}, fakekafka.Fault{Effect: fakekafka.PrepareLost, Wait: 3})
	effects[kmsg.Produce] = slices.Concat(cuts, deaths, []fakekafka.Fault{after(kerr.RequestTimedOut), after(kerr.NotEnoughReplicasAfterAppend)},
		answers(kerr.NotEnoughReplicas, kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch, kerr.UnknownProducerID, kerr.InvalidTxnState, kerr.ConcurrentTransactions))
	return effects
}

// once is a story with transactions: records that are rejected, redriven and replayed, and
// another docket at the end.
func once(behind int) story {
	return story{
		name: fmt.Sprintf("behind %d", behind),
		m:    model{once: true, behind: behind},
		tell: func(_ *testing.T, w *world) {
			w.store(9)
			w.Refuse(`"n":5,`)
			p := w.run(w.start(), func(p *process) error { return p.deliver(9) })
			w.permit()
			p = w.run(p, (*process).redrive)
			w.replay(6)
			w.store(3)
			w.run(p.restart(), func(p *process) error { return p.deliver(12) })
			w.judge(func(c copyOf) bool { return c.late == sinks.Redriven && w.deaths > 0 })
			w.wantPosition(13)
		},
	}
}

// Each record is there once for a consumer with read_committed, whatever is cut, whoever
// dies, and whatever becomes of the transaction.
func TestModelExactlyOnce(t *testing.T) {
	for _, s := range []story{once(0), once(2)} {
		faults := s.faultsAt(t, transactionFaults())
		s.each(t, 20, faults)
		if !testing.Short() {
			s.pairs(t, faults, 600)
		}
	}
}

// A prepared commit is final, whatever happens before it completes: the transaction times
// out, the coordinator moves, or another docket starts. The position does not cover redriven
// records, so nobody would send a lost one again.
func TestModelPreparedCommit(t *testing.T) {
	s := story{
		name: "prepared",
		m:    model{once: true},
		tell: func(_ *testing.T, w *world) {
			w.store(12)
			w.Refuse(`"n":2,`)
			p := w.run(w.start(), func(p *process) error { return p.deliver(3) })
			w.permit()
			w.prepareNext()
			p = w.run(p, (*process).redrive)
			p = w.run(p.restart(), func(p *process) error { return p.deliver(6) })
			w.prepareNext()
			p = w.run(p, func(p *process) error { return p.deliver(9) })
			w.run(p, func(p *process) error { return p.deliver(12) })
			w.judge(noneTwice)
			w.wantPosition(13)
		},
	}
	s.each(t, 3, s.faultsAt(t, everywhere(
		fakekafka.Fault{Effect: fakekafka.Expire}, fakekafka.Fault{Effect: fakekafka.Late}, fakekafka.Fault{Effect: fakekafka.MoveBefore})))
}

// A call that is cut short leaves nothing behind, whether the docket goes on or ends.
func TestModelInterrupted(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		s := once(0)
		s.name = fmt.Sprintf("leaves %v", leaves)
		s.m.leaves = leaves
		s.each(t, 6, s.faultsAt(t, everywhere(fakekafka.Fault{Effect: fakekafka.Interrupt})))
	}
}

// The offsets of a group expire when nobody has written for long: the queue knows the place too.
func TestModelPositionIsForgotten(t *testing.T) {
	s := once(0)
	s.each(t, 6, s.faultsAt(t, everywhere(fakekafka.Fault{Effect: fakekafka.Forget})))
}

// Of two dockets that start at once one is fenced.
func TestModelTwoAtOnce(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		w := newWorld(t, model{once: true})
		w.store(12)
		dockets := []*process{w.start(), w.start()}
		ended := make([]error, len(dockets))
		var both sync.WaitGroup
		for i, p := range dockets {
			both.Go(func() { ended[i] = p.deliver(9) })
		}
		both.Wait()
		fenced := 0
		for i, p := range dockets {
			if ended[i] == nil {
				ended[i] = p.deliver(12)
			}
			if errors.Is(ended[i], errFenced) {
				fenced++
			} else if ended[i] != nil {
				t.Errorf("%s ends with %v", p.name, ended[i])
			}
		}
		if fenced != 1 {
			t.Errorf("%d of two dockets are fenced, want 1: %v", fenced, ended)
		}
		w.judge(noneTwice)
		w.wantPosition(13)
	}
}

// Two dockets have one queue: the first is stopped at any request, and goes on when the
// second has written. One of them is fenced and writes nothing more, and that is the first
// unless it was stopped before it was the owner of the position.
func TestModelZombie(t *testing.T) {
	quiet := story{m: model{once: true}, tell: func(_ *testing.T, w *world) {
		w.store(6)
		w.run(w.start(), func(p *process) error { return p.deliver(6) })
	}}
	for _, f := range quiet.faultsAt(t, everywhere(fakekafka.Fault{Effect: fakekafka.StopBefore}, fakekafka.Fault{Effect: fakekafka.StopAfter})) {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			zombie(t, newWorld(t, quiet.m), f)
		})
	}
}

// waitFor waits until a docket is stopped, which would end otherwise.
func waitFor(t *testing.T, stopped <-chan struct{}, ended <-chan error) {
	t.Helper()
	select {
	case <-stopped:
	case err := <-ended:
		t.Fatalf("the docket ends with %v, want it to be stopped", err)
	}
}

func zombie(t *testing.T, w *world, f fakekafka.Fault) {
	w.store(9)
	met := w.Arm(f)
	first := w.start()
	ended := make(chan error, 1)
	go func() { ended <- first.deliver(9) }()
	waitFor(t, met[0], ended)
	owned, err := w.Offset(group, modelTopic, 0)
	if err != nil {
		t.Fatal(err)
	}
	second := w.start()
	if err := second.deliver(6); err != nil {
		t.Fatalf("the second docket: %v", err)
	}
	first.ghost.Store(true)
	w.Continue(first.name)
	err1, err2 := <-ended, second.deliver(9)
	fenced, winner := first, second
	switch {
	case errors.Is(err1, errFenced) && err2 == nil:
	case errors.Is(err2, errFenced) && err1 == nil && owned < 0:
		fenced, winner = second, first
	default:
		t.Fatalf("the first docket ends with %v, the second with %v, want that the first is fenced", err1, err2)
	}
	begun := w.Counts()[kmsg.InitProducerID]
	for range 2 {
		if err := fenced.deliver(9); !errors.Is(err, errFenced) {
			t.Errorf("the fenced docket goes on with %v, want %v", err, errFenced)
		}
	}
	if got := w.Counts()[kmsg.InitProducerID]; got != begun {
		t.Errorf("the fenced docket has asked for its identity %d times more, want never", got-begun)
	}
	w.store(3)
	if err := winner.deliver(12); err != nil {
		t.Errorf("the other docket: %v", err)
	}
	w.judge(noneTwice)
	w.wantPosition(13)
}

// A second docket starts and is stopped at any of its requests, while the first writes. It
// takes over when it goes on, and the first writes nothing more.
func TestModelTakeover(t *testing.T) {
	quiet := story{m: model{once: true}, tell: func(_ *testing.T, w *world) {
		w.store(3)
		w.run(w.start(), (*process).resume)
	}}
	for _, f := range quiet.faultsAt(t, everywhere(fakekafka.Fault{Effect: fakekafka.StopBefore}, fakekafka.Fault{Effect: fakekafka.StopAfter})) {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			takeover(t, newWorld(t, quiet.m), f)
		})
	}
}

func takeover(t *testing.T, w *world, f fakekafka.Fault) {
	w.store(9)
	first := w.start()
	if err := first.deliver(3); err != nil {
		t.Fatal(err)
	}
	f.At.Nth += w.Counts()[f.At.Key]
	met := w.Arm(f)
	second := w.start()
	ended := make(chan error, 1)
	go func() { ended <- second.resume() }()
	waitFor(t, met[0], ended)
	first.ghost.Store(true)
	if err := first.deliver(6); err != nil && !errors.Is(err, errFenced) {
		t.Errorf("the first docket ends with %v, want that it goes on or is fenced", err)
	}
	w.Continue(second.name)
	if err := <-ended; err != nil {
		t.Fatalf("the second docket does not start: %v", err)
	}
	if err := first.deliver(9); !errors.Is(err, errFenced) {
		t.Errorf("the first docket ends with %v, want %v", err, errFenced)
	}
	if err := second.deliver(9); err != nil {
		t.Errorf("the second docket: %v", err)
	}
	w.judge(noneTwice)
	w.wantPosition(10)
}

// A docket with an older copy of the queue changes nothing in Kafka: the one that has
// written goes on.
func TestModelOlderCopy(t *testing.T) {
	w := newWorld(t, model{once: true})
	w.store(9)
	first := w.start()
	if err := first.deliver(6); err != nil {
		t.Fatal(err)
	}
	copied := newWorld(t, model{once: true})
	copied.Cluster = w.Cluster
	copied.processes = 10
	copied.store(3)
	if err := copied.start().deliver(3); !errors.Is(err, errAhead) {
		t.Errorf("the docket with the copy goes on with %v, want %v", err, errAhead)
	}
	if err := first.deliver(9); err != nil {
		t.Errorf("the docket that has written: %v", err)
	}
	w.judge(noneTwice)
	w.wantPosition(10)
}
