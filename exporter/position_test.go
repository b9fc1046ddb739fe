package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// Who decides where a sink goes on: its account, or its destination.
func TestDecide(t *testing.T) {
	at := func(seq uint64) time.Time { return time.Unix(0, 1000+int64(seq)) }
	const last, damaged = 20, 14
	for name, tt := range map[string]struct {
		account  queue.Account
		there    *sinks.Position // nil: none
		want     sinks.Position
		follows  bool
		unread   bool
		ahead    string // a part of the failure
		unusable bool   // the queue cannot be read
	}{
		"none there":               {account: queue.Account{Next: 5, Replayed: 7}, want: sinks.Position{Next: 5, Replayed: 7, Received: at(4)}},
		"none there, nor here":     {account: queue.Account{Next: 1}, want: sinks.Position{Next: 1}},
		"equal":                    {account: queue.Account{Next: 5, Replayed: 7}, there: &sinks.Position{Next: 5, Replayed: 7, Received: at(4)}, want: sinks.Position{Next: 5, Replayed: 7, Received: at(4)}},
		"account is further":       {account: queue.Account{Next: 9, Replayed: 7}, there: &sinks.Position{Next: 5, Replayed: 7}, want: sinks.Position{Next: 9, Replayed: 7, Received: at(8)}},
		"destination is further":   {account: queue.Account{Next: 5, Replayed: 7}, there: &sinks.Position{Next: 12, Replayed: 7, Received: at(11)}, want: sinks.Position{Next: 12, Replayed: 7, Received: at(11)}, follows: true},
		"destination has all":      {account: queue.Account{Next: 5, Replayed: 7}, there: &sinks.Position{Next: last + 1, Replayed: 7, Received: at(last)}, want: sinks.Position{Next: last + 1, Replayed: 7, Received: at(last)}, follows: true},
		"replayed":                 {account: queue.Account{Next: 5, Replayed: 8}, there: &sinks.Position{Next: 12, Replayed: 7, Received: at(11)}, want: sinks.Position{Next: 5, Replayed: 8, Received: at(4)}},
		"replayed, of another":     {account: queue.Account{Next: 5, Replayed: 8}, there: &sinks.Position{Next: 99, Replayed: 7}, want: sinks.Position{Next: 5, Replayed: 8, Received: at(4)}},
		"account of before":        {account: queue.Account{Next: 5}, there: &sinks.Position{Next: 12, Received: at(11)}, want: sinks.Position{Next: 12, Received: at(11)}, follows: true},
		"account is lost":          {account: queue.Account{Next: 1}, there: &sinks.Position{Next: 12, Replayed: 7, Received: at(11)}, want: sinks.Position{Next: 12, Replayed: 7, Received: at(11)}, follows: true},
		"account is lost, further": {account: queue.Account{Next: 13}, there: &sinks.Position{Next: 12, Replayed: 7, Received: at(11)}, want: sinks.Position{Next: 13, Replayed: 7, Received: at(12)}},
		"the record is damaged":    {account: queue.Account{Next: 5, Replayed: 7}, there: &sinks.Position{Next: damaged + 1, Replayed: 7, Received: at(99)}, want: sinks.Position{Next: damaged + 1, Replayed: 7, Received: at(99)}, follows: true, unread: true},
		"own record is damaged":    {account: queue.Account{Next: damaged + 1, Replayed: 7}, want: sinks.Position{Next: damaged + 1, Replayed: 7}},

		"a later replay is there": {account: queue.Account{Next: 5, Replayed: 7}, there: &sinks.Position{Next: 3, Replayed: 8}, ahead: "was replayed or new at 1970-01-01T00:00:00Z"},
		"beyond the end":          {account: queue.Account{Next: 5, Replayed: 7}, there: &sinks.Position{Next: last + 2, Replayed: 7, Received: at(last + 1)}, ahead: "has records up to 21, and the queue ends at 20"},
		"another record":          {account: queue.Account{Next: 5, Replayed: 7}, there: &sinks.Position{Next: 12, Replayed: 7, Received: at(11).Add(1)}, ahead: "its record 11 differs"},
		"an unknown record":       {account: queue.Account{Next: 5}, there: &sinks.Position{Next: 12}, ahead: "its record 11 differs"},

		"the queue fails": {account: queue.Account{Next: 5, Replayed: 7}, there: &sinks.Position{Next: 12, Replayed: 7, Received: at(11)}, unusable: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestDelivery(t, SinkConfig{Name: "bus", Config: &scriptedSink{}}, &fakeCursor{account: tt.account}, slog.New(slog.DiscardHandler))
			d.stored = func() uint64 { return last }
			errDisk := errors.New("input/output error")
			d.received = func(_ context.Context, seq uint64) (time.Time, bool, error) {
				if tt.unusable {
					return time.Time{}, false, errDisk
				}
				return at(seq), seq != damaged, nil
			}
			var there sinks.Position
			if tt.there != nil {
				there = *tt.there
			}
			got, err := d.decide(t.Context(), there, tt.there != nil)
			if tt.unusable {
				if !errors.Is(err, errDisk) {
					t.Errorf("got %v, want the error of the queue", err)
				}
				return
			}
			if tt.ahead != "" {
				f := sinks.FailureOf(err)
				wantCommand := fmt.Sprintf("docket replay --sink %s --from %d", d.cfg.Name, tt.account.Next)
				if f.Reason != sinks.PositionAhead || f.Kind != sinks.Misconfigured || !strings.Contains(err.Error(), tt.ahead) || !strings.Contains(err.Error(), wantCommand) {
					t.Errorf("got %v, want PositionAhead with %q and %q", err, tt.ahead, wantCommand)
				}
				return
			}
			if err != nil || got.goOn != tt.want || got.follows != tt.follows || got.unread != tt.unread {
				t.Errorf("got %+v, %v; want %+v, follows %v, unread %v", got, err, tt.want, tt.follows, tt.unread)
			}
		})
	}
}

// recognizingSink has newest of the queue.
type recognizingSink struct {
	scriptedSink
	newest sinks.Newest
}

func (s *recognizingSink) Newest(string) (sinks.Newest, error) { return s.newest, nil }

// A sink that drops what it has is ahead where it has a record that the queue does not.
func TestRecognized(t *testing.T) {
	at := func(seq uint64) time.Time { return time.Unix(0, 1000+int64(seq)) }
	const next, last, damaged = 5, 20, 14
	for name, tt := range map[string]struct {
		newest sinks.Newest
		ahead  string // a part of the failure
	}{
		"nothing there":               {},
		"less than the account":       {newest: sinks.Newest{Through: 3, Record: 3, Received: at(99)}},
		"more than the account":       {newest: sinks.Newest{Through: 12, Record: 12, Received: at(12)}},
		"a gap at the end":            {newest: sinks.Newest{Through: 16, Record: 12, Received: at(12)}},
		"a gap alone":                 {newest: sinks.Newest{Through: 6, Record: 3, Received: at(99)}},
		"everything":                  {newest: sinks.Newest{Through: last, Record: last, Received: at(last)}},
		"a record that is not known":  {newest: sinks.Newest{Through: 12}},
		"a record that is damaged":    {newest: sinks.Newest{Through: damaged, Record: damaged, Received: at(99)}},
		"beyond the end":              {newest: sinks.Newest{Through: last + 1, Record: last + 1}, ahead: "has records up to 21, and the queue ends at 20"},
		"a gap beyond the end":        {newest: sinks.Newest{Through: last + 1, Record: 4, Received: at(4)}, ahead: "has records up to 21, and the queue ends at 20"},
		"another record":              {newest: sinks.Newest{Through: 12, Record: 12, Received: at(13)}, ahead: "its record 12 differs"},
		"another record before a gap": {newest: sinks.Newest{Through: 14, Record: 12, Received: at(13)}, ahead: "its record 12 differs"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestDelivery(t, SinkConfig{Name: "export", Config: &scriptedSink{}}, &fakeCursor{account: queue.Account{Next: next}}, slog.New(slog.DiscardHandler))
			d.stored = func() uint64 { return last }
			d.received = func(_ context.Context, seq uint64) (time.Time, bool, error) { return at(seq), seq != damaged, nil }
			d.sink = &recognizingSink{newest: tt.newest}
			err := d.resume(t.Context())
			if tt.ahead == "" {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			f := sinks.FailureOf(err)
			if f == nil || f.Reason != sinks.PositionAhead || f.Kind != sinks.Misconfigured || !strings.Contains(err.Error(), tt.ahead) || !strings.Contains(err.Error(), "continues with record 5") {
				t.Errorf("got %v, want PositionAhead with %q", err, tt.ahead)
			}
		})
	}
}

// A sink is behind where it lacks records that were delivered to it. It is not where it begins
// anew, or where the queue gave up what it lacks.
func TestRecognizedBehind(t *testing.T) {
	for name, tt := range map[string]struct {
		account queue.Account
		through uint64
		lost    bool
		behind  string // a part of the failure
	}{
		"a new destination":        {account: queue.Account{Next: 10, Delivered: 9}},
		"up to date":               {account: queue.Account{Next: 10, Delivered: 9}, through: 9},
		"one lacks":                {account: queue.Account{Next: 10, Delivered: 9}, through: 8, behind: "ends at record 8, and docket has delivered up to record 9"},
		"some lack":                {account: queue.Account{Next: 10, Delivered: 4, Filtered: 5}, through: 3, behind: "ends at record 3"},
		"some lack after a replay": {account: queue.Account{Next: 10, Filtered: 9, ReplayTo: 20}, through: 3, behind: "ends at record 3"},
		"dropped":                  {account: queue.Account{Next: 10, Delivered: 3, Dropped: 6}, through: 3},
		"damaged and dropped":      {account: queue.Account{Next: 10, Delivered: 3, Dropped: 4, Corrupt: 2}, through: 3},
		"more than was dropped":    {account: queue.Account{Next: 10, Delivered: 4, Dropped: 5}, through: 3, behind: "ends at record 3"},
		"its position is lost":     {account: queue.Account{Next: 10, Delivered: 9}, through: 3, lost: true},
		"new to the queue again":   {account: queue.Account{Next: 10, Filtered: 9}, through: 3},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestDelivery(t, SinkConfig{Name: "export", Config: &scriptedSink{}}, &fakeCursor{account: tt.account}, slog.New(slog.DiscardHandler))
			d.stored = func() uint64 { return 20 }
			d.sink = &recognizingSink{newest: sinks.Newest{Through: tt.through, Lost: tt.lost}}
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

// A replay now would not be later than one that a wrong clock has put into the future: it is
// not what the failure advises.
func TestReplayToCome(t *testing.T) {
	d := newTestDelivery(t, SinkConfig{Name: "bus", Config: &scriptedSink{}}, &fakeCursor{account: queue.Account{Next: 5, Replayed: 7}}, slog.New(slog.DiscardHandler))
	d.stored = func() uint64 { return 20 }
	_, err := d.decide(t.Context(), sinks.Position{Next: 3, Replayed: time.Now().Add(time.Hour).UnixNano()}, true)
	if f := sinks.FailureOf(err); f.Reason != sinks.PositionAhead || strings.Contains(err.Error(), "docket replay") || !strings.Contains(err.Error(), "continue with record 5") {
		t.Errorf("got %v, want PositionAhead that advises to delete the position", err)
	}
}

// The queue is an older copy of one that has gone on: nothing is sent, nothing skipped and
// nothing taken over, docket goes on taking lines in, and a replay has the sink go on.
func TestPositionAhead(t *testing.T) {
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
	want, claims := x.topic.Taken(), x.topic.Claims()

	x.dir = old
	x.start(1, 0)
	ahead := func() bool { s := x.status(); return s.State == Error && s.Reason == sinks.PositionAhead }
	x.until("it is ahead", ahead)
	x.take(6, 8) // other records with the same numbers, and one more
	x.until("it is tried with the record that differs", func() bool { return ahead() && strings.Contains(x.status().LastError, "its record 7 differs") })
	tried := x.status().Attempts
	x.until("it is still tried", func() bool { return x.status().Attempts > tried && ahead() })
	if s := x.status(); !strings.Contains(s.LastError, "its record 7 differs") || s.Transactions.Position != 8 || s.Cursor != 6 || s.Pending != 3 {
		t.Errorf("got the status %+v, want the destination at 8 and the sink at 6", s)
	}
	if got := x.topic.Taken(); !slices.Equal(got, want) || x.topic.Claims() != claims {
		t.Errorf("the topic has %v after %d claims, want %v after %d", got, x.topic.Claims(), want, claims)
	}
	r, err := x.e.Replay(t.Context(), "bus", inspect.ReplayFrom{Seq: 6}, false)
	if err != nil || r.Count() != 0 {
		t.Fatalf("replay: got %+v, %v; want no record again", r, err)
	}
	x.until("it goes on", func() bool { return x.account().Next == 9 && x.status().State == Active })
	for _, seq := range []uint64{7, 8} { // the filter leaves out 6
		want = append(want, sinktest.Taken{Seq: seq, Text: fmt.Sprintf(`{"n":%d}`, seq)})
	}
	if got := x.topic.Taken(); !slices.Equal(got, want) {
		t.Errorf("the topic has %v, want %v", got, want)
	}
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

// The filter has changed since records were delivered or set aside: a letter stays where it is.
func TestFollowWithAnotherFilter(t *testing.T) {
	x := newExactly(t, fault{number: 3, after: true, kill: true})
	x.start(1, 12)
	<-x.died
	x.filter = "record.n > 4"
	x.restart(fromTheTime)
	x.until("twelve records", func() bool { return x.account().Next == 13 })
	want := queue.Account{Next: 13, Delivered: 7, Filtered: 3, DeadLettered: 2} // 5 to 8 and 10 to 12; 1, 2 and 4; 3 and 9
	if got := x.account(); got.Delivered != want.Delivered || got.Filtered != want.Filtered || got.DeadLettered != want.DeadLettered {
		t.Errorf("got the account %+v, want %+v", got, want)
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
		if err := d.letters.store.Close(); err != nil { // nothing can be changed any more
			t.Fatal(err)
		}
		start(t, d)
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := d.snapshot(); s.State != Error || s.Reason != "DeadLetters" || len(topic.Taken()) != 0 {
			t.Errorf("got the status %+v and %v in the topic, want an error of the dead letters and nothing sent", s, topic.Taken())
		}
		d.letters.mu.Lock()
		d.letters.store = nil // it is opened anew
		d.letters.mu.Unlock()
		if err := d.letters.ready(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := topic.Taken(); len(got) != 3 || d.snapshot().State != Active {
			t.Errorf("the topic has %v, and the status is %+v; want all three records", got, d.snapshot())
		}
		if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), " remove ") {
			t.Errorf("the log of the letters has no removal: %q, %v", text, err)
		}
	})
}

// A sink takes of a backlog what Gather says, and docket counts with the memory for it.
func TestGather(t *testing.T) {
	x := newExactly(t, fault{})
	x.most = sinks.BatchLimits{MaxRecords: 8, MaxBytes: 1 << 20}
	x.start(10, 29)
	x.until("twenty records", func() bool { return x.account().Next == 21 })
	var commits int
	for _, r := range x.seen {
		if r.Name == "commit" {
			commits++
		}
	}
	if commits != 3 { // of 8 and 8 records, without 3 and 9, and of 4
		t.Errorf("%d commits were made, want 3 of at most 8 records: %v", commits, x.seen)
	}
	gathers, takes := x.sink(), x.sink()
	gathers.Config = &sinktest.TopicConfig{Most: sinks.BatchLimits{MaxRecords: 8, MaxBytes: 4 << 20}}
	takes.Batch.MaxBytes = 4 << 20
	if got, want := gathers.memoryBytes(1<<20), takes.memoryBytes(1<<20); got != want {
		t.Errorf("%d bytes of memory for batches of 4 MiB that are gathered, want the %d of those that are configured", got, want)
	}
}
