package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks/filesink"
)

// Letters are redriven, and one or two are rejected again. Whatever the policy, the
// others arrive once.
func TestRedriveDeliversTheNeighboursOnce(t *testing.T) {
	t.Parallel()
	for _, policy := range []OnReject{DeadLetter, DropRejected, BlockAt} {
		for _, poison := range [][]int{{2}, {5}, {9}, {4, 7}} {
			t.Run(fmt.Sprint(policy, " poison ", poison), func(t *testing.T) {
				t.Parallel()
				r := newRedriveTest(t)
				r.poison.Store(&poison)
				r.begin(t, policy)
				defer r.end(t)
				r.redriveAll(t)
				bad := uint64(len(poison))
				want := queue.Account{Delivered: redriveRecords - bad}
				if policy == DropRejected && poison[0] > 2 { // the first one is refused before any is accepted
					want.Dropped = bad
				} else {
					want.DeadLettered = bad
				}
				r.check(t, once(poison...), want)
			})
		}
	}
}

// A letter is purged while a request that has it is under way: every other arrives once,
// those of the requests before too.
func TestPurgeDuringARedriveDeliversTheOthersOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		policy OnReject
		poison []int
		purge  int
		during []int // the first and the last record of the request during which it is purged
	}{
		"one request":               {DeadLetter, nil, 5, []int{2, 9}},
		"a request that is refused": {DeadLetter, []int{9}, 5, []int{2, 9}},
		"the first part":            {DeadLetter, []int{9}, 3, []int{2, 5}},
		"a later part":              {DeadLetter, []int{9}, 7, []int{6, 7}},
		"the one that is refused":   {DeadLetter, []int{5}, 5, []int{5, 5}},
		"the one that is dropped":   {DropRejected, []int{5}, 5, []int{5, 5}},
		"beside one to be dropped":  {DropRejected, []int{4}, 5, []int{4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRedriveTest(t)
			r.poison.Store(&tt.poison)
			var purged atomic.Bool
			before := func(numbers []int) {
				if a := r.cursor.Account(); a.Delivered > redriveRecords-uint64(r.letters.stats().Letters)-a.Dropped {
					t.Errorf("account %+v says more than that %d letters are left", a, r.letters.stats().Letters)
				}
				if numbers[0] != tt.during[0] || numbers[len(numbers)-1] != tt.during[1] || purged.Swap(true) {
					return
				}
				if n, err := r.letters.purge([]uint64{uint64(tt.purge)}); n != 1 || err != nil {
					t.Errorf("purge = %d, %v; want 1", n, err)
				}
			}
			r.before.Store(&before)
			r.begin(t, tt.policy)
			defer r.end(t)
			r.redriveAll(t)
			if !purged.Load() {
				t.Fatalf("no request from %d to %d was made", tt.during[0], tt.during[1])
			}
			got := r.counts()
			for n := range once(append(tt.poison, tt.purge)...) { // what was purged on its way may have arrived
				if got[n] != 1 {
					t.Errorf("record %d was taken %d times, want once", n, got[n])
				}
			}
			bad := uint64(len(slices.DeleteFunc(slices.Clone(tt.poison), func(n int) bool { return n == tt.purge })))
			want := queue.Account{Delivered: redriveRecords - 1 - bad, Dropped: 1, DeadLettered: bad}
			if tt.policy == DropRejected {
				want.Dropped, want.DeadLettered = 1+bad, 0
			}
			r.check(t, map[int]int{}, want)
		})
	}
}

// The same letters are redriven again while they are on their way, and the one that was
// rejected again as well: every other arrives once.
func TestRedriveOfWhatIsOnItsWay(t *testing.T) {
	for _, policy := range []OnReject{DeadLetter, DropRejected} {
		t.Run(string(policy), func(t *testing.T) {
			r := newRedriveTest(t)
			r.poison.Store(&[]int{4})
			r.begin(t, policy)
			defer r.end(t)
			var requests atomic.Int64
			before := func([]int) {
				if requests.Add(1) > 20 { // else it would never end
					return
				}
				if _, err := r.letters.redrive(nil); err != nil {
					t.Error(err)
				}
			}
			r.before.Store(&before)
			r.redriveAll(t)
			r.check(t, once(4), oneRejected(policy))
		})
	}
}

// oneRejected is the account of a sink that has taken all records but one.
func oneRejected(policy OnReject) queue.Account {
	if policy == DropRejected {
		return queue.Account{Delivered: redriveRecords - 1, Dropped: 1}
	}
	return queue.Account{Delivered: redriveRecords - 1, DeadLettered: 1}
}

// What the destination took of a redrive before a stop does not come again after it.
func TestRedriveAcrossAStop(t *testing.T) {
	for _, policy := range []OnReject{DeadLetter, DropRejected} {
		t.Run(string(policy), func(t *testing.T) {
			r := newRedriveTest(t)
			r.poison.Store(&[]int{9})
			r.begin(t, policy)
			stopping, refused := make(chan struct{}), make(chan struct{})
			before := func(numbers []int) {
				if numbers[0] == 8 { // [2 3 4 5] and [6 7] have arrived by now
					close(stopping)
					<-refused
					panic(http.ErrAbortHandler)
				}
			}
			r.before.Store(&before)
			if _, err := r.letters.redrive(nil); err != nil {
				t.Fatal(err)
			}
			<-stopping
			r.end(t)
			close(refused)
			r.before.Store(nil)
			r.begin(t, policy)
			defer r.end(t)
			r.redriveAll(t)
			r.check(t, once(9), oneRejected(policy))
		})
	}
}

// A stop comes when the destination has taken the letters, and the account is to be made
// durable: they do not come again.
func TestStopBeforeTheAccountOfARedriveIsDurable(t *testing.T) {
	r := newRedriveTest(t)
	r.poison.Store(&[]int{})
	r.begin(t, DeadLetter)
	slow := &slowSync{account: patient{r.cursor}, entered: make(chan struct{}), leave: make(chan struct{})}
	r.setAccount(slow)
	if _, err := r.letters.redrive(nil); err != nil {
		t.Fatal(err)
	}
	<-slow.entered
	store, err := deadletter.Open(r.letters.dir, deadletter.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := store.Stats().Redriving; got != redriveRecords-2 {
		t.Errorf("%d letters are left before the account is durable, want %d: a kill would make dropped records of the others", got, redriveRecords-2)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	go func() {
		<-r.stopping
		close(slow.leave)
	}()
	r.end(t)
	r.begin(t, DeadLetter)
	defer r.end(t)
	r.redriveAll(t)
	r.check(t, once(), queue.Account{Delivered: redriveRecords})
}

// slowSync is an account that begins to be durable when it is let.
type slowSync struct {
	account
	entered, leave chan struct{}
}

func (s *slowSync) Redelivered(ctx context.Context, n uint64, remove func() error) error {
	close(s.entered)
	<-s.leave
	return s.account.Redelivered(ctx, n, remove)
}

func (r *redriveTest) setAccount(a account) {
	r.letters.mu.Lock()
	defer r.letters.mu.Unlock()
	r.letters.account = a
}

// What the destination has taken is not sent again because the letters cannot be removed:
// only that is tried again. What is in the queue is delivered meanwhile.
func TestLettersThatCannotBeRemovedAreNotSentAgain(t *testing.T) {
	r := newRedriveTest(t)
	r.poison.Store(&[]int{})
	r.begin(t, DeadLetter)
	defer r.end(t)
	broken := &brokenSync{account: patient{r.cursor}}
	broken.is.Store(true)
	r.setAccount(broken)
	if _, err := r.letters.redrive(nil); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it has failed a few times", func() bool { return broken.failures.Load() >= 5 })
	put(t, r.queue, redriveRecords+1, redriveRecords+1)
	await.Until(t, "the next record is delivered", func() bool { return r.cursor.Account().Next == redriveRecords+2 })
	await.Until(t, "an error of the dead letters, and a next attempt", func() bool {
		got := r.snapshot()
		return got.State == Error && got.Reason == "DeadLetters" && got.NextAttempt != nil
	})
	await.Until(t, "the account says that they are there", func() bool { return r.cursor.Account().Redriving == redriveRecords-2 })
	broken.is.Store(false)
	r.settle(t)
	want := once()
	want[redriveRecords+1] = 1
	r.check(t, want, queue.Account{Delivered: redriveRecords + 1})
	await.Until(t, "all is well", func() bool { return r.snapshot().State == Active })
}

// brokenSync is an account that cannot be made durable for some time.
type brokenSync struct {
	account
	is       atomic.Bool
	failures atomic.Int64
}

func (b *brokenSync) Redelivered(ctx context.Context, n uint64, remove func() error) error {
	if b.is.Load() {
		b.failures.Add(1)
		return errors.New("cursors: write: input/output error")
	}
	return b.account.Redelivered(ctx, n, remove)
}

// While they cannot be removed that is tried at the pace of other failures, although the
// delivery goes on.
func TestFailedRedrivesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pickySink{poison: []uint64{2}}
		c := &fakeCursor{batches: [][]queue.Record{records(1, 3)}}
		d := newTestDelivery(t, SinkConfig{Config: s}, c, slog.New(slog.DiscardHandler))
		broken := &brokenSync{account: c}
		broken.is.Store(true)
		d.letters.account = broken
		start(t, d)
		synctest.Wait()
		s.set(func() { s.poison = nil })
		if _, err := d.letters.redrive(nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // of the bubble's time
		synctest.Wait()
		if got := broken.failures.Load(); got < 50 || got > 150 {
			t.Errorf("it was tried %d times in an hour, want about once a minute", got)
		}
		broken.is.Store(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := d.snapshot(); got.State != Active || d.letters.stats().Letters != 0 || !slices.Equal(s.seqs(), []uint64{1, 3, 2}) {
			t.Errorf("after that: status %+v, letters %+v, delivered %v; want all of them once", got, d.letters.stats(), s.seqs())
		}
	})
}

// A letter that the destination cannot take now is purged in the pause between two
// attempts: what is behind it does not wait for the end of the pause.
func TestPurgeEndsThePauseOfARedrive(t *testing.T) {
	r := newRedriveTest(t)
	r.pause = time.Hour
	r.failing.Store(true)
	r.begin(t, DeadLetter)
	defer r.end(t)
	if _, err := r.letters.redrive([]uint64{5}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the redrive pauses", func() bool { return r.snapshot().Reason == "Transient" })
	r.failing.Store(false)
	if n, err := r.letters.purge([]uint64{5}); n != 1 || err != nil {
		t.Fatalf("purge = %d, %v; want 1", n, err)
	}
	put(t, r.queue, redriveRecords+1, redriveRecords+1)
	await.Until(t, "the next record is delivered", func() bool { return r.cursor.Account().Next == redriveRecords+2 })
	r.check(t, map[int]int{redriveRecords + 1: 1}, queue.Account{Delivered: 3, DeadLettered: redriveRecords - 3, Dropped: 1})
	if got := r.snapshot(); got.State != Active {
		t.Errorf("got status %+v, want that all is well", got)
	}
}

// A redrive against a destination that refuses everything costs no letter, whatever onReject says.
func TestRedriveToADestinationThatRefusesEverything(t *testing.T) {
	for _, policy := range []OnReject{DeadLetter, DropRejected, BlockAt} {
		t.Run(string(policy), func(t *testing.T) {
			r := newRedriveTest(t)
			r.begin(t, policy)
			defer r.end(t)
			r.redriveAll(t)
			r.check(t, map[int]int{}, queue.Account{Delivered: 2, DeadLettered: redriveRecords - 2})
			r.poison.Store(&[]int{})
			r.redriveAll(t)
			r.check(t, once(), queue.Account{Delivered: redriveRecords})
		})
	}
}

// Letters are rejected again and their disk takes no change: what is in the queue is
// delivered meanwhile, and they are kept in the end.
func TestLettersThatCannotBeKeptAgain(t *testing.T) {
	for _, policy := range []OnReject{DeadLetter, DropRejected} {
		t.Run(string(policy), func(t *testing.T) {
			r := newRedriveTest(t)
			store, err := deadletter.Open(r.letters.dir, deadletter.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Redrive([]uint64{3, 4}); err != nil {
				t.Fatal(err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			r.readOnly = true
			r.begin(t, policy)
			await.Until(t, "the letters fail", func() bool { return r.snapshot().Reason == "DeadLetters" })
			put(t, r.queue, redriveRecords+1, redriveRecords+1)
			await.Until(t, "the next record is delivered", func() bool { return r.cursor.Account().Next == redriveRecords+2 })
			r.end(t)
			r.readOnly = false
			r.begin(t, policy)
			defer r.end(t)
			want := queue.Account{Delivered: 3, DeadLettered: redriveRecords - 2} // with Drop, too: all of them are refused
			await.Until(t, "they are settled", func() bool {
				a := r.cursor.Account()
				return r.letters.known.Load() != nil && a.Redriving == 0 && a.DeadLettered == want.DeadLettered
			})
			r.check(t, map[int]int{redriveRecords + 1: 1}, want)
		})
	}
}

// The dead letters are full, and what is said of the first one gets longer with each
// attempt. The others can be redriven all the same, and it is kept.
func TestRedriveOfFullLettersThatAreRejectedAgain(t *testing.T) {
	r := newRedriveTest(t)
	r.poison.Store(&[]int{2})
	r.answer.Store("not mapped, and this time the receiver says at length why")
	r.maxBytes = r.letters.stats().Bytes
	r.begin(t, DeadLetter)
	defer r.end(t)
	r.redriveAll(t)
	r.check(t, once(2), queue.Account{Delivered: redriveRecords - 1, DeadLettered: 1})
}

// The sink of the letters has become one that proves an export, in which a record has
// its place by its number. It cannot take letters, and nothing counts as if it had.
func TestLettersAreNotRedrivenToAnExport(t *testing.T) {
	r := newRedriveTest(t)
	to := filesink.Definition.NewConfig().(*filesink.Config)
	to.Directory = filepath.Join(r.dir, "export")
	r.export = to
	r.begin(t, DeadLetter)
	defer r.end(t)
	put(t, r.queue, redriveRecords+1, redriveRecords+1)
	await.Until(t, "the next record is delivered", func() bool { return r.cursor.Account().Next == redriveRecords+2 })
	want, _, err := r.letters.get("5")
	if err != nil {
		t.Fatal(err)
	}
	r.redriveAll(t)
	r.check(t, map[int]int{}, queue.Account{Delivered: 3, DeadLettered: redriveRecords - 2})
	want.Reason = errNoPlace.Error()
	if got, ok, err := r.letters.get("5"); !ok || err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got letter %+v, %v, %v; want %+v", got, ok, err, want)
	}
	if got := r.snapshot(); got.State != Active {
		t.Errorf("got status %+v, want that all is well", got)
	}
}
