package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktest"
)

// ownLineage is of a queue that was started three times, and had 20 records before the last.
var ownLineage = sinks.Lineage{{ID: "A", First: 1}, {ID: "B", First: 8}, {ID: "C", First: 21}}

// Who decides where a sink in transactions goes on: its account, or its destination.
func TestDecide(t *testing.T) {
	at := func(next uint64, replayed int64, l sinks.Lineage) *sinks.Position {
		return &sinks.Position{Next: next, Replayed: replayed, Lineage: l}
	}
	older := ownLineage[:1] // the queue was set back to where it ended at 7
	account := func(next uint64, replayed int64) queue.Account { return queue.Account{Next: next, Replayed: replayed} }
	for name, tt := range map[string]struct {
		account  queue.Account
		there    *sinks.Position // nil: none
		next     uint64
		replayed int64
		ahead    uint64 // what is there and not here; 0: none
		fails    bool
	}{
		"none there":               {account: account(5, 7), next: 5, replayed: 7},
		"none there, nor here":     {account: account(1, 0), next: 1},
		"begun there":              {account: account(1, 7), there: at(1, 7, nil), next: 1, replayed: 7},
		"equal":                    {account: account(5, 7), there: at(5, 7, ownLineage[:1]), next: 5, replayed: 7},
		"account is further":       {account: account(9, 7), there: at(5, 7, ownLineage[:1]), next: 9, replayed: 7},
		"destination is further":   {account: account(5, 7), there: at(12, 7, ownLineage[:2]), next: 12, replayed: 7},
		"destination has all":      {account: account(5, 7), there: at(21, 7, ownLineage[:2]), next: 21, replayed: 7},
		"replayed":                 {account: account(5, 8), there: at(12, 7, ownLineage[:2]), next: 5, replayed: 8},
		"replayed, of another":     {account: account(5, 8), there: at(99, 7, nil), next: 5, replayed: 8},
		"account of before":        {account: account(5, 0), there: at(12, 0, ownLineage[:2]), next: 12},
		"account is lost":          {account: account(1, 0), there: at(12, 7, ownLineage[:2]), next: 12, replayed: 7},
		"account is lost, further": {account: account(13, 0), there: at(12, 7, ownLineage[:2]), next: 13, replayed: 7},

		"the queue was set back":                       {account: account(5, 7), there: at(30, 7, older), next: 8, replayed: 7, ahead: 29},
		"the queue was set back, and the account":      {account: account(2, 7), there: at(30, 7, older), next: 8, replayed: 7, ahead: 29},
		"the queue was set back and has gone on":       {account: account(15, 7), there: at(30, 7, older), next: 15, replayed: 7, ahead: 29},
		"the queue was set back behind other starts":   {account: account(5, 7), there: at(30, 7, sinks.Lineage{{ID: "A", First: 1}, {ID: "X", First: 10}, {ID: "Y", First: 12}}), next: 8, replayed: 7, ahead: 29},
		"the queue was set back behind a later replay": {account: account(5, 7), there: at(30, 8, older), next: 8, replayed: 8, ahead: 29},
		"a later replay is there, which has not ended": {account: account(5, 7), there: at(3, 8, older), next: 5, replayed: 8},
		"a later replay is there, of a fast clock":     {account: account(5, 7), there: at(3, math.MaxInt64-1, older), next: 5, replayed: math.MaxInt64 - 1},

		"nothing in common, all is delivered": {account: account(21, 7), there: at(30, 7, sinks.Lineage{{ID: "Y", First: 12}}), next: 21, replayed: 7, ahead: 29},
		"nothing in common":                   {account: account(20, 7), there: at(30, 7, sinks.Lineage{{ID: "Y", First: 12}}), fails: true},
		"nothing is known":                    {account: account(5, 7), there: at(12, 7, nil), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestDelivery(t, SinkConfig{Name: "bus", Config: &scriptedSink{}}, &fakeCursor{account: tt.account}, slog.New(slog.DiscardHandler))
			d.transacts, d.queue.Lineage = true, ownLineage
			var there sinks.Position
			if tt.there != nil {
				there = *tt.there
			}
			got, err := d.decide(there, tt.there != nil)
			if tt.fails {
				f := sinks.FailureOf(err)
				wantCommand := fmt.Sprintf("docket replay --sink %s --from %d", d.cfg.Name, tt.account.Next)
				if f.Reason != sinks.PositionAhead || f.Kind != sinks.Misconfigured || !strings.Contains(err.Error(), wantCommand) {
					t.Errorf("got %v, want PositionAhead with %q", err, wantCommand)
				}
				return
			}
			if err != nil || got.goOn.Next != tt.next || got.goOn.Replayed != tt.replayed || !slices.Equal(got.goOn.Lineage, ownLineage) || got.ahead != tt.ahead {
				t.Errorf("got %+v, %v; want record %d of replay %d, and %d ahead", got, err, tt.next, tt.replayed, tt.ahead)
			}
		})
	}
}

// recognizingSink is at a position.
type recognizingSink struct {
	scriptedSink
	at sinks.Position
}

func (s *recognizingSink) Resume(_ context.Context, _ sinks.Queue, decide sinks.Decide) error {
	_, err := decide(s.at, s.at.Next > 1)
	return err
}

// A sink that drops what it has tells how much that is of this queue, however far it has got with
// another copy of it.
func TestRecognized(t *testing.T) {
	for name, tt := range map[string]struct {
		at   sinks.Position
		told uint64
	}{
		"nothing there":          {},
		"less than the account":  {sinks.Position{Next: 4, Lineage: ownLineage[:1]}, 3},
		"more than the account":  {sinks.Position{Next: 13, Lineage: ownLineage[:2]}, 12},
		"everything":             {sinks.Position{Next: 21, Lineage: ownLineage[:2]}, 20},
		"the queue was set back": {sinks.Position{Next: 30, Lineage: ownLineage[:1]}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestDelivery(t, SinkConfig{Name: "export", Config: &scriptedSink{}}, &fakeCursor{account: queue.Account{Next: 5, Replayed: 7}}, slog.New(slog.DiscardHandler))
			d.queue.Lineage = ownLineage
			d.sink = &recognizingSink{at: tt.at}
			if err := d.resume(t.Context()); err != nil || d.told.Load() != tt.told {
				t.Errorf("got %v, told up to %d, want %d", err, d.told.Load(), tt.told)
			}
		})
	}
}

// A sink is behind where it lacks records that were delivered to it. It is not where it begins
// anew, where the queue gave up what it lacks, or where the queue has lost what it has.
func TestRecognizedBehind(t *testing.T) {
	for name, tt := range map[string]struct {
		account queue.Account
		through uint64
		more    uint64 // records of an incarnation that the queue does not know, behind those
		lost    bool
		behind  string // a part of the failure
	}{
		"a new destination":          {account: queue.Account{Next: 10, Delivered: 9}},
		"up to date":                 {account: queue.Account{Next: 10, Delivered: 9}, through: 9},
		"one lacks":                  {account: queue.Account{Next: 10, Delivered: 9}, through: 8, behind: "ends at record 8, and docket has delivered up to record 9"},
		"some lack":                  {account: queue.Account{Next: 10, Delivered: 4, Filtered: 5}, through: 3, behind: "ends at record 3"},
		"some lack after a replay":   {account: queue.Account{Next: 10, Filtered: 9, ReplayTo: 20}, through: 3, behind: "ends at record 3"},
		"dropped":                    {account: queue.Account{Next: 10, Delivered: 3, Dropped: 6}, through: 3},
		"damaged and dropped":        {account: queue.Account{Next: 10, Delivered: 3, Dropped: 4, Corrupt: 2}, through: 3},
		"more than was dropped":      {account: queue.Account{Next: 10, Delivered: 4, Dropped: 5}, through: 3, behind: "ends at record 3"},
		"the queue has lost its end": {account: queue.Account{Next: 10, Delivered: 9}, through: 5, more: 4},
		"fewer of another copy":      {account: queue.Account{Next: 10, Delivered: 9}, through: 5, more: 3, behind: "ends at record 5"},
		"its position is lost":       {account: queue.Account{Next: 10, Delivered: 9}, through: 3, lost: true},
		"new to the queue again":     {account: queue.Account{Next: 10, Filtered: 9}, through: 3},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestDelivery(t, SinkConfig{Name: "export", Config: &scriptedSink{}}, &fakeCursor{account: tt.account}, slog.New(slog.DiscardHandler))
			d.queue.Lineage = ownLineage
			at := sinks.Position{Next: tt.through + 1, Lineage: ownLineage, Lost: tt.lost}
			if tt.more > 0 {
				at.Next, at.Lineage = at.Next+tt.more, ownLineage[:1].Begin("X", at.Next)
			}
			d.sink = &recognizingSink{at: at}
			err := d.resume(t.Context())
			if tt.behind == "" {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			f := sinks.FailureOf(err)
			if f.Reason != sinks.PositionBehind || f.Kind != sinks.Misconfigured || !strings.Contains(err.Error(), tt.behind) || !strings.Contains(err.Error(), "continues with record 10") {
				t.Errorf("got %v, want PositionBehind with %q", err, tt.behind)
			}
		})
	}
}

// The queue is an older copy of one that has gone on: what it stores has the same numbers and other
// ids, and is delivered. What the destination has beyond the copy stays.
func TestQueueIsSetBack(t *testing.T) {
	x := newExactly(t, fault{})
	x.start(1, 5)
	x.until("five records", func() bool { return x.account().Next == 6 })
	x.end()
	old := x.dir + "-old"
	if err := copyLive(x.dir, old); err != nil {
		t.Fatal(err)
	}
	x.start(6, 7)
	x.until("seven records", func() bool { return x.account().Next == 8 })
	x.end()
	want := x.topic.Taken()

	x.dir = old
	x.start(6, 8) // other records with the same numbers, and one more
	x.until("it goes on", func() bool { return x.account().Next == 9 && x.status().State == Active })
	for _, seq := range []uint64{7, 8} { // the filter leaves out 6
		want = append(want, sinktest.Taken{Seq: seq, Text: fmt.Sprintf(`{"n":%d}`, seq)})
	}
	if got := x.topic.Taken(); !slices.Equal(got, want) {
		t.Errorf("the topic has %v, want %v", got, want)
	}
	if text := x.log.String(); !strings.Contains(text, "the queue was set back") || !strings.Contains(text, "nextSeq=6") {
		t.Errorf("the log does not tell: %s", text)
	}
}

// A position of which nobody can tell what it has of the records that wait: an operator says where
// to go on.
func TestPositionAhead(t *testing.T) {
	x := newExactly(t, fault{})
	x.start(1, 5)
	x.until("five records", func() bool { return x.account().Next == 6 })
	hook := x.topic.Hook
	x.topic.Hook = func(at sinktest.Request) error {
		if err := hook(at); err != nil || at.Name == "read" {
			return err
		}
		return errCutOff
	}
	x.take(6, 8)
	x.end()
	x.topic.Hook = hook
	x.topic.SetPosition(sinks.Position{Next: 30, Replayed: x.topicReplayed(), Lineage: sinks.Lineage{{ID: "unknown", First: 25}}})
	taken, claims := x.topic.Taken(), x.topic.Claims()
	x.start(1, 0)
	ahead := func() bool { s := x.status(); return s.State == Error && s.Reason == sinks.PositionAhead }
	x.until("it is ahead, and still tried", func() bool { return x.status().Attempts > 3 && ahead() })
	if got := x.topic.Taken(); !slices.Equal(got, taken) || x.topic.Claims() != claims {
		t.Errorf("the topic has %v after %d claims, want %v after %d", got, x.topic.Claims(), taken, claims)
	}
	next := x.account().Next // 7 where the filter has already left out 6
	r, err := x.e.Replay(t.Context(), "bus", inspect.ReplayFrom{Seq: next}, false)
	if err != nil || r.Count() != 0 {
		t.Fatalf("replay: got %+v, %v; want no record again", r, err)
	}
	x.until("it goes on", func() bool { return x.account().Next == 9 && x.status().State == Active })
	if got := x.topic.Taken(); len(got) != len(taken)+2 {
		t.Errorf("the topic has %v, want 7 and 8 behind %v", got, taken)
	}
}

func (x *exactly) topicReplayed() int64 {
	at, _ := x.topic.Position()
	return at.Replayed
}

// The status tells the position on disk from the one at the destination.
func TestDurablePosition(t *testing.T) {
	x := newExactly(t, fault{})
	x.start(1, 5)
	x.until("five records are there, and durably done", func() bool {
		s := x.status()
		return s.Cursor == 6 && s.Transactions.Position == 6 && s.Transactions.Durable == 6
	})
	x.end()
}

// Two dockets have copies of one queue: the one that has started later goes on. The other says
// so, takes lines in, and never comes back by itself.
func TestFenced(t *testing.T) {
	x := newExactly(t, fault{})
	x.start(1, 5)
	x.until("five records", func() bool { return x.account().Next == 6 })
	copied := x.dir + "-copy"
	if err := copyLive(x.dir, copied); err != nil {
		t.Fatal(err)
	}
	first, end := x.e, x.end
	x.dir = copied
	x.start(6, 7)
	x.until("seven records", func() bool { return x.account().Next == 8 })
	second := x.e

	x.e = first
	x.take(6, 7)
	fenced := func() bool {
		s := x.status()
		return s.State == Error && s.Reason == sinks.Fenced && s.Attempts > 3
	}
	x.until("it is fenced", fenced)
	if s := x.status(); s.Cursor > 7 || s.Transactions.Fenced != 1 {
		t.Errorf("got the status %+v, want the sink at 6, or behind it as it is filtered, and fenced once", s)
	}
	x.e = second
	x.take(8, 9)
	x.until("nine records", func() bool { return x.account().Next == 10 })
	x.e = first
	x.until("it stays fenced", fenced)
	end()
	if got := x.taken(); len(got) != 6 || got[9] != 0 || got[8] != 1 || got[7] != 1 { // 1, 2, 4, 5, 7, 8
		t.Errorf("the topic has %v, want each record that is not rejected once", got)
	}
}

// The account of a sink that is new is durable before its destination hears of it: behind a
// crash another new account would win, and send again what is there.
func TestAccountIsDurableBeforeItIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &savedCursor{fakeCursor: fakeCursor{batches: [][]queue.Record{records(1, 3)}}, failures: 3}
		topic := &sinktest.Topic{Hook: func(sinktest.Request) error {
			if c.failures >= 0 {
				t.Error("a request is made before the account is durable")
			}
			return nil
		}}
		d := newTestDelivery(t, SinkConfig{Config: &sinktest.TopicConfig{Topic: topic}}, &c.fakeCursor, slog.New(slog.DiscardHandler))
		d.cursor, d.stored = c, func() uint64 { return 3 }
		start(t, d)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := topic.Taken(); len(got) != 3 {
			t.Errorf("the topic has %v, want all three records", got)
		}
	})
}

// savedCursor is durable after some attempts.
type savedCursor struct {
	fakeCursor
	failures int // that are left; below 0: it has succeeded
}

func (c *savedCursor) Save(context.Context) error {
	c.failures--
	if c.failures >= 0 {
		return errors.New("cursors: write: input/output error")
	}
	return nil
}

// Records are there and the destination cannot be asked yet: what became of them is not
// decided before. Dead letters stay that a transaction has passed.
func TestRecordsWaitForTheDestination(t *testing.T) {
	x := newExactly(t, fault{number: 3, after: true, kill: true}) // of records 1 to 5, 3 set aside
	x.start(1, 12)
	<-x.died
	x.mu.Lock()
	x.accepts[3] = true // it would be taken now, and is in the dead letters
	x.fault = fault{}
	x.mu.Unlock()
	hook, failures := x.topic.Hook, 0
	x.end()
	x.topic.Hook = func(at sinktest.Request) error {
		if at.Sink == "process 2" && at.Name == "read" && !at.Done && failures < 20 {
			failures++
			return errCutOff
		}
		return hook(at)
	}
	x.restart(fromTheTime)
	x.until("twelve records", func() bool { return x.account().Next == 13 })
	if got := x.taken(); got[3] != 0 || got[1] != 1 || got[12] != 1 {
		t.Errorf("the topic has %v, want 3 to be in the dead letters", got)
	}
	if a := x.account(); a.DeadLettered != 2 || a.Delivered != 9 || a.Filtered != 1 {
		t.Errorf("got the account %+v, want 9 delivered, 2 set aside and 1 filtered", a)
	}
	if failures != 20 {
		t.Errorf("Resume was attempted %d times, want it to be tried again", failures)
	}
}

// A letter of a record that is decided anew cannot be removed: the record waits, for behind a
// crash the letter would count, and be redriven, although the destination has the record.
func TestLetterIsGoneBeforeItsRecordIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := &sinktest.Topic{}
		c := &fakeCursor{batches: [][]queue.Record{records(1, 3)}}
		d := newTestDelivery(t, SinkConfig{Config: &sinktest.TopicConfig{Topic: topic}}, c, slog.New(slog.DiscardHandler))
		d.stored = func() uint64 { return 3 }
		if err := d.letters.add([]deadletter.Letter{{Seq: 2, Record: []byte("{}")}, {Seq: 9, Record: []byte("{}")}}); err != nil {
			t.Fatal(err)
		}
		log := filepath.Join(d.letters.dir, "letters.log")
		if err := d.letters.store.Load().Close(); err != nil { // nothing can be changed any more
			t.Fatal(err)
		}
		start(t, d)
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := d.snapshot(); s.State != Error || s.Reason != "DeadLetters" || len(topic.Taken()) != 0 {
			t.Errorf("got the status %+v and %v in the topic, want an error of the dead letters and nothing sent", s, topic.Taken())
		}
		again, err := deadletter.Open(d.letters.dir, d.letters.options)
		if err != nil {
			t.Fatal(err)
		}
		d.letters.store.Store(again)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := topic.Taken(); len(got) != 3 || d.snapshot().State != Active {
			t.Errorf("the topic has %v, and the status is %+v; want all three records", got, d.snapshot())
		}
		if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "remove") {
			t.Errorf("the log of the letters has no removal: %q, %v", text, err)
		}
	})
}
