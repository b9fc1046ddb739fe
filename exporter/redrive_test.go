package exporter

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink"
	"github.com/docket-export/docket/sinks/httpsink"
)

// receiver is an HTTP destination that refuses a whole body for one record in it, and
// does not say which, or takes all of it.
type receiver struct {
	poison  atomic.Pointer[[]int]
	answer  atomic.Value // to a body with poison, a string
	failing atomic.Bool  // it takes nothing now
	// before and after the answer each is called with the records of the body, unless
	// it is nil.
	before, after atomic.Pointer[func(numbers []int)]

	mu    sync.Mutex
	taken []int // guarded by mu
}

func newReceiver(t *testing.T, poison ...int) (r *receiver, url string) {
	t.Helper()
	r = &receiver{}
	r.poison.Store(&poison)
	r.answer.Store("not mapped")
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, server.URL
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var numbers []int
	for lines := bufio.NewScanner(req.Body); lines.Scan(); {
		var record struct{ N int }
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		numbers = append(numbers, record.N)
	}
	if before := r.before.Load(); before != nil {
		(*before)(numbers)
	}
	if r.failing.Load() {
		http.Error(w, "later", http.StatusServiceUnavailable)
		return
	}
	if slices.ContainsFunc(*r.poison.Load(), func(n int) bool { return slices.Contains(numbers, n) }) {
		http.Error(w, r.answer.Load().(string), http.StatusBadRequest)
	} else {
		r.take(numbers)
		w.WriteHeader(http.StatusNoContent)
	}
	if after := r.after.Load(); after != nil {
		_ = http.NewResponseController(w).Flush() // the client may have gone
		(*after)(numbers)
	}
}

func (r *receiver) take(numbers []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = append(r.taken, numbers...)
}

// counts returns how often each record was taken, and forgets it.
func (r *receiver) counts() map[int]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[int]int{}
	for _, n := range r.taken {
		counts[n]++
	}
	r.taken = nil
	return counts
}

// redriveTest is a queue, the letters of one sink and its delivery over HTTP.
type redriveTest struct {
	*receiver
	url   string // of the receiver
	dir   string
	queue *queue.Queue
	*delivery
	cursor         *trackedCursor
	export         *filesink.Config // in place of the receiver
	pause          time.Duration    // after a first failure, from the next begin on
	maxBytes       int64            // of the letters, from the next begin on; 0: enough
	entered, leave chan struct{}    // of the cursor, from the next begin on
	stop           func()
	stopping       <-chan struct{} // closed by stop
}

// redriveRecords is how many records there are; all but the first and the last are
// dead letters.
const redriveRecords = 10

// newRedriveTest leaves the letters of all records but the first and the last.
func newRedriveTest(t *testing.T) *redriveTest {
	t.Helper()
	var poison []int
	for n := 2; n < redriveRecords; n++ {
		poison = append(poison, n)
	}
	r := &redriveTest{dir: t.TempDir(), pause: time.Millisecond}
	r.receiver, r.url = newReceiver(t, poison...)
	r.begin(t, DeadLetter)
	put(t, r.queue, 1, redriveRecords)
	await.Until(t, "set aside", func() bool { return r.cursor.Account().DeadLettered == redriveRecords-2 })
	r.end(t)
	r.counts()
	return r
}

// trackedCursor is a cursor whose account of redelivered letters can fail, or wait.
type trackedCursor struct {
	*queue.Cursor
	broken, failures atomic.Int64
	entered, leave   chan struct{} // nil: it does not wait
}

func (c *trackedCursor) Redelivered(ctx context.Context, n uint64, remove func() error) error {
	if c.entered != nil {
		c.entered <- struct{}{}
		<-c.leave
	}
	if c.broken.Load() > 0 {
		c.failures.Add(1)
		return errors.New("cursors: write: input/output error")
	}
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err // as of the cursor itself: a stop must not cancel this
	}
	// It waits for its disk as long as that takes: a disk that is slow here does not hang.
	return c.Cursor.Redelivered(context.WithoutCancel(ctx), n, remove)
}

// begin starts the delivery, as a restart with another configuration does.
func (r *redriveTest) begin(t *testing.T, policy OnReject) {
	t.Helper()
	var err error
	if r.queue, err = queue.Open(queue.Options{Directory: r.dir}); err != nil {
		t.Fatal(err)
	}
	c, err := r.queue.Cursor("test", false)
	if err != nil {
		t.Fatal(err)
	}
	r.cursor = &trackedCursor{Cursor: c, entered: r.entered, leave: r.leave}
	to := httpsink.Definition.NewConfig().(*httpsink.Config)
	to.URL = r.url
	cfg := SinkConfig{Name: "test", Config: to, OnReject: policy, DeadLetters: defaultDeadLetters(), Batch: sinks.DefaultBatch(),
		Retry: RetryConfig{InitialBackoff: config.Duration(r.pause), MaxBackoff: config.Duration(2 * r.pause)}}
	cfg.Batch.MaxWait = 0
	if r.export != nil {
		cfg.Config = orderedSink{r.export}
	}
	facts := queueFacts{id: r.queue.ID(), directory: r.dir, lost: func() []segment.SeqRange { return nil }, stored: r.queue.LastSeq, readAhead: readAhead(r.dir, r.queue)}
	if r.delivery, err = newDelivery(cfg, facts, r.cursor, newMetrics("x").delivery("test"), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if r.maxBytes > 0 {
		r.letters.options.MaxBytes = r.maxBytes
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.stopping = ctx.Done()
	ended := make(chan struct{})
	d := r.delivery
	go func() { defer close(ended); d.run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		if err := d.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
}

// end stops the delivery and closes the queue.
func (r *redriveTest) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := r.queue.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// redriveAll has all letters delivered again and waits until none is on its way.
func (r *redriveTest) redriveAll(t *testing.T) {
	t.Helper()
	if _, err := r.letters.redrive(nil); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
}

func (r *redriveTest) settle(t *testing.T) {
	t.Helper()
	await.Until(t, "no letter is on its way", func() bool {
		return r.letters.stats().Redriving == 0 && r.cursor.Account().Pending(r.queue.LastSeq()) == 0
	})
}

// check compares what was taken since counts, and the account, with what is wanted.
func (r *redriveTest) check(t *testing.T, want map[int]int, account queue.Account) {
	t.Helper()
	if got := r.counts(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("taken again, by record: got %v, want %v", got, want)
	}
	a := r.cursor.Account()
	got := queue.Account{Delivered: a.Delivered, DeadLettered: a.DeadLettered, Dropped: a.Dropped}
	if got != account || a.Next != r.queue.LastSeq()+1 {
		t.Errorf("got account %+v, want %+v at %d", a, account, r.queue.LastSeq()+1)
	}
	if letters := r.letters.stats().Letters; uint64(letters) != account.DeadLettered {
		t.Errorf("got %d letters, want %d", letters, account.DeadLettered)
	}
}

// once is one delivery of each letter but some.
func once(without ...int) map[int]int {
	counts := map[int]int{}
	for n := 2; n < redriveRecords; n++ {
		if !slices.Contains(without, n) {
			counts[n] = 1
		}
	}
	return counts
}

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
				want.DeadLettered = bad
				r.check(t, once(poison...), want)
			})
		}
	}
}

// A letter is purged while a request that has it is under way: every other arrives once, and the purged
// one does not come back, whether it was taken or refused.
func TestPurgeDuringARedriveDeliversTheOthersOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		poison    []int
		purge     int
		during    []int // the first and the last record of the request during which it is purged
		delivered bool  // the purged one was
	}{
		"one request":               {nil, 5, []int{2, 9}, true},
		"a request that is refused": {[]int{9}, 5, []int{2, 9}, false},
		"the one that is refused":   {[]int{2}, 2, []int{2, 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRedriveTest(t)
			r.poison.Store(&tt.poison)
			var purged atomic.Bool
			before := func(numbers []int) {
				if numbers[0] != tt.during[0] || numbers[len(numbers)-1] != tt.during[1] || purged.Swap(true) {
					return
				}
				if n, err := r.letters.purge([]uint64{uint64(tt.purge)}); n != 1 || err != nil {
					t.Errorf("purge = %d, %v; want 1", n, err)
				}
			}
			r.before.Store(&before)
			r.begin(t, DeadLetter)
			defer r.end(t)
			r.redriveAll(t)
			if !purged.Load() {
				t.Fatalf("no request from %d to %d was made", tt.during[0], tt.during[1])
			}
			got := r.counts()
			for n := range once(append(tt.poison, tt.purge)...) {
				if got[n] != 1 {
					t.Errorf("record %d was taken %d times, want once", n, got[n])
				}
			}
			kept := slices.DeleteFunc(slices.Clone(tt.poison), func(n int) bool { return n == tt.purge })
			if n := r.letters.stats().Letters; n != len(kept) || (got[tt.purge] > 0) != tt.delivered {
				t.Errorf("%d letters are left, and the purged one was taken %d times; want %d, and %t", n, got[tt.purge], len(kept), tt.delivered)
			}
		})
	}
}

// Letters that wait for a redrive at a start are delivered although no record comes.
func TestRedriveGoesOnAfterAStartWithoutRecords(t *testing.T) {
	r := newRedriveTest(t)
	r.poison.Store(&[]int{})
	store, err := deadletter.Open(filepath.Join(r.dir, DeadLettersDirectory, "test"), deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Redrive(nil); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	r.begin(t, DeadLetter)
	defer r.end(t)
	await.Until(t, "the letters are delivered, and gone", func() bool {
		return r.cursor.Account().DeadLettered == 0 && r.letters.stats().Letters == 0
	})
	r.check(t, once(), queue.Account{Delivered: redriveRecords})
}

// What the destination took of a redrive before a stop does not come again after it.
func TestRedriveAcrossAStop(t *testing.T) {
	r := newRedriveTest(t)
	r.poison.Store(&[]int{9})
	r.begin(t, DeadLetter)
	stopping, refused := make(chan struct{}), make(chan struct{})
	before := func(numbers []int) {
		if numbers[0] == 8 { // others have arrived by now
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
	r.begin(t, DeadLetter)
	defer r.end(t)
	r.redriveAll(t)
	r.check(t, once(9), queue.Account{Delivered: redriveRecords - 1, DeadLettered: 1})
}

// A stop comes when the destination has taken the letters, and the account is to be made
// durable: they are there before it is, and do not come again after it.
func TestStopBeforeTheAccountOfARedriveIsDurable(t *testing.T) {
	r := newRedriveTest(t)
	r.poison.Store(&[]int{})
	r.entered, r.leave = make(chan struct{}), make(chan struct{})
	r.begin(t, DeadLetter)
	if _, err := r.letters.redrive(nil); err != nil {
		t.Fatal(err)
	}
	<-r.cursor.entered
	if got := r.letters.stats().Redriving; got != redriveRecords-2 {
		t.Errorf("%d letters are left before the account is durable, want %d", got, redriveRecords-2)
	}
	// Requests about the letters do not wait for the account.
	if list, err := r.letters.list(); err != nil || len(list) != redriveRecords-2 {
		t.Errorf("got %d letters, %v, want %d", len(list), err, redriveRecords-2)
	}
	go func() {
		<-r.stopping
		close(r.leave)
	}()
	r.end(t)
	r.entered = nil
	r.begin(t, DeadLetter)
	defer r.end(t)
	r.redriveAll(t)
	r.check(t, once(), queue.Account{Delivered: redriveRecords})
}

// What the destination has taken is not sent again because the letters cannot be removed:
// only that is tried again. What is in the queue is delivered meanwhile.
func TestLettersThatCannotBeRemovedAreNotSentAgain(t *testing.T) {
	r := newRedriveTest(t)
	r.poison.Store(&[]int{})
	r.begin(t, DeadLetter)
	defer r.end(t)
	r.cursor.broken.Store(1)
	if _, err := r.letters.redrive(nil); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it has failed a few times", func() bool { return r.cursor.failures.Load() >= 5 })
	put(t, r.queue, redriveRecords+1, redriveRecords+1)
	await.Until(t, "the next record is delivered", func() bool { return r.cursor.Account().Next == redriveRecords+2 })
	await.Until(t, "an error of the dead letters, and a next attempt", func() bool {
		got := r.snapshot()
		return got.State == Error && got.Reason == "DeadLetters" && got.NextAttempt != nil
	})
	r.cursor.broken.Store(0)
	r.settle(t)
	want := once()
	want[redriveRecords+1] = 1
	r.check(t, want, queue.Account{Delivered: redriveRecords + 1})
	await.Until(t, "all is well", func() bool { return r.snapshot().State == Active })
}

// While the destination takes no letter that is tried at the pace of other failures, and what is in
// the queue is delivered. An operator's retry, and a purge, end the pause.
func TestFailedRedrivesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts, live atomic.Int64
		f := &funcSink{send: func(_ context.Context, b sinks.Batch) error {
			switch {
			case b.Items[0].Late == sinks.Redriven:
				attempts.Add(1)
				return errNet
			case b.Items[0].Seq == 1:
				return reject(0)
			}
			live.Add(int64(len(b.Items)))
			return nil
		}}
		c := &pushed{ch: make(chan []queue.Record, 5)}
		d := newTestDelivery(t, SinkConfig{Config: f}, &c.fakeCursor, slog.New(slog.DiscardHandler))
		d.cursor = c
		c.ch <- records(1, 1)
		start(t, d)
		synctest.Wait()
		if _, err := d.letters.redrive(nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // of the bubble's time
		c.ch <- records(2, 3)
		synctest.Wait()
		if got := attempts.Load(); got < 50 || got > 150 || live.Load() != 2 || d.snapshot().NextAttempt == nil {
			t.Errorf("tried %d times in an hour, %d others delivered, %+v; want about once a minute, and 2", got, live.Load(), d.snapshot())
		}
		before := attempts.Load()
		d.tryNow()
		synctest.Wait()
		if got := attempts.Load(); got != before+1 {
			t.Errorf("tried %d times after a retry, want %d", got, before+1)
		}
		if n, err := d.letters.purge(nil); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := d.snapshot(); got.State != Active || attempts.Load() != before+1 {
			t.Errorf("after a purge: %+v and %d attempts", got, attempts.Load())
		}
	})
}

// A destination that has never room for so many letters at once gets fewer, as it does of records.
func TestRedriveOfMoreThanADestinationTakesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &funcSink{send: func(_ context.Context, b sinks.Batch) error {
			switch {
			case b.Items[0].Late != sinks.Redriven:
				return reject(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
			case len(b.Items) > 3:
				return &sinks.Failure{Kind: sinks.Throttled, Err: errors.New("429")}
			}
			return nil
		}}
		c := &pushed{ch: make(chan []queue.Record, 1)}
		d := newTestDelivery(t, SinkConfig{Config: f}, &c.fakeCursor, slog.New(slog.DiscardHandler))
		d.cursor = c
		c.ch <- records(1, 10)
		start(t, d)
		synctest.Wait()
		if n, err := d.letters.redrive(nil); n != 10 || err != nil {
			t.Fatalf("redrive = %d, %v; want 10", n, err)
		}
		time.Sleep(time.Hour) // of the bubble's time
		synctest.Wait()
		if got := d.letters.stats(); got.Letters != 0 || c.redriven != 10 {
			t.Errorf("after an hour %d letters are left, and %d were delivered; want 0 and 10", got.Letters, c.redriven)
		}
	})
}

// hookedConfig does something when its sink is opened, which is before the delivery waits for records.
type hookedConfig struct {
	*funcSink
	opened func()
}

func (c *hookedConfig) Open(context.Context, sinks.Env) (sinks.Sink, error) {
	c.opened()
	return c.funcSink, nil
}

// A redrive that is requested just before the delivery waits for records is not forgotten.
func TestRedriveJustBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		cfg := &hookedConfig{funcSink: &funcSink{send: func(_ context.Context, b sinks.Batch) error {
			sent.Add(int64(len(b.Items)))
			return nil
		}}}
		d := newTestDelivery(t, SinkConfig{Config: cfg}, &fakeCursor{account: queue.Account{Next: 10}}, slog.New(slog.DiscardHandler))
		cfg.opened = func() {
			if n, err := d.letters.redrive(nil); n != 1 || err != nil {
				t.Errorf("redrive = %d, %v; want 1", n, err)
			}
		}
		if err := d.letters.add([]deadletter.Letter{{Seq: 1, Record: []byte("{}")}}); err != nil {
			t.Fatal(err)
		}
		start(t, d)
		synctest.Wait()
		if got := sent.Load(); got != 1 {
			t.Errorf("%d letters were sent, want 1", got)
		}
	})
}

// Letters of two incarnations of the queue go in two batches: those of the second stay until they
// are delivered too.
func TestRedriveOfTwoIncarnations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		f := &funcSink{send: func(_ context.Context, b sinks.Batch) error {
			for i := range b.Items {
				sent = append(sent, b.ID(i))
			}
			return nil
		}}
		c := &fakeCursor{account: queue.Account{Next: 10}}
		d := newTestDelivery(t, SinkConfig{Config: f}, c, slog.New(slog.DiscardHandler))
		if err := d.letters.add([]deadletter.Letter{
			{Seq: 1, Incarnation: "old", Record: []byte("{}")},
			{Seq: 2, Incarnation: "new", Record: []byte("{}")},
			{Seq: 3, Incarnation: "new", Record: []byte("{}")},
		}); err != nil {
			t.Fatal(err)
		}
		start(t, d)
		if n, err := d.letters.redrive(nil); n != 3 || err != nil {
			t.Fatalf("redrive = %d, %v; want 3", n, err)
		}
		synctest.Wait()
		if want := []string{"old-1", "new-2", "new-3"}; !slices.Equal(sent, want) || d.letters.stats().Letters != 0 || c.redriven != 3 {
			t.Errorf("sent %v, %d counted as delivered, letters left: %+v; want %v and no letter", sent, c.redriven, d.letters.stats(), want)
		}
	})
}

// Dead letters that are to be delivered again do not wait for the end of a backlog, nor it for them.
func TestRedriveComesBetweenBatchesOfABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pickySink{poison: []uint64{5}}
		slow := &funcSink{send: func(ctx context.Context, b sinks.Batch) error {
			time.Sleep(time.Second) // of the bubble's time
			return s.Send(ctx, b)
		}}
		c := &fakeCursor{}
		for first := uint64(1); first < 1000; first += 10 {
			c.batches = append(c.batches, records(first, first+9))
		}
		d := newTestDelivery(t, SinkConfig{Config: slow}, c, slog.New(slog.DiscardHandler))
		d.stored = func() uint64 { return 10_000 }
		start(t, d)
		time.Sleep(20 * time.Second)
		s.set(func() { s.poison = nil })
		if _, err := d.letters.redrive(nil); err != nil {
			t.Fatal(err)
		}
		before := len(c.acked())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !slices.Contains(s.seqs(), 5) || len(c.acked()) < before+5 {
			t.Errorf("after 10 s: delivered %v, acked %v", s.seqs(), c.acked())
		}
	})
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

// The dead letters are full: nothing overtakes the batch that waits for room, and letters
// that are redriven are sent in its slot and make room.
func TestRedriveMakesRoomForABatchThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		f := &funcSink{}
		f.send = func(_ context.Context, b sinks.Batch) error {
			sent = append(sent, fmt.Sprint(b.Items[0].Late, b.Items[0].Seq))
			if b.Items[0].Seq <= 2 && b.Items[0].Late == sinks.OnTime {
				return reject(0)
			}
			return nil
		}
		c := &fakeCursor{batches: [][]queue.Record{records(1, 1), records(2, 2), records(3, 3)}}
		d := newTestDelivery(t, SinkConfig{Config: f}, c, slog.New(slog.DiscardHandler))
		d.letters.options.MaxBytes = 300 // for one letter
		d.stored = func() uint64 { return 10_000 }
		start(t, d)
		time.Sleep(time.Hour) // of the bubble's time
		synctest.Wait()
		if slices.Contains(sent, "3") || !slices.Equal(c.acked(), []uint64{1}) {
			t.Errorf("while record 2 waits for room: sent %v, acked %v; want no record 3, and [1]", sent, c.acked())
		}
		sent = nil
		if n, err := d.letters.redrive(nil); n != 1 || err != nil {
			t.Fatalf("redrive = %d, %v; want 1", n, err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(sent); !slices.Contains(sent, "Redriven1") || sent[n-1] != "3" || !slices.Equal(c.acked(), []uint64{1, 2, 3}) {
			t.Errorf("behind a redrive: sent %v, acked %v; want record 1 again, 3 last, and all acked", sent, c.acked())
		}
	})
}

// A process is killed at each request of a redrive, before the destination takes what is
// in it, and right behind the answer. No record is lost, none but those of an answered
// request come twice, and the books balance.
func TestRedriveAcrossAKill(t *testing.T) {
	if dir := os.Getenv("REDRIVE_KILL_DIR"); dir != "" {
		redriveToBeKilled(t, dir)
		return
	}
	step := 1
	if testing.Short() {
		step = 3
	}
	// Not beside other tests: until a new process has begun it holds the locks of all queues.
	for _, answered := range []bool{false, true} {
		t.Run(fmt.Sprint("answered ", answered), func(t *testing.T) {
			kills := 0
			for killAtRequest(t, 1+kills*step, answered) {
				kills++
			}
			if kills < 2 {
				t.Errorf("the redrive had %d requests, want those that find one of 8", kills)
			}
		})
	}
}

// redriveToBeKilled is what the process does.
func redriveToBeKilled(t *testing.T, dir string) {
	r := &redriveTest{receiver: &receiver{}, url: os.Getenv("REDRIVE_KILL_URL"), dir: dir, pause: time.Millisecond}
	r.begin(t, DeadLetter)
	r.redriveAll(t)
	r.end(t)
}

// killAtRequest reports whether there was a request of this number.
func killAtRequest(t *testing.T, number int, answered bool) bool {
	t.Helper()
	r := newRedriveTest(t)
	r.poison.Store(&[]int{5})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRedriveAcrossAKill$")
	cmd.Env = append(os.Environ(), "REDRIVE_KILL_DIR="+r.dir, "REDRIVE_KILL_URL="+r.url)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var requests atomic.Int64
	reached, killed := make(chan []int, 1), make(chan struct{})
	hook := func(numbers []int) {
		if requests.Add(1) == int64(number) {
			reached <- numbers
			<-killed
			panic(http.ErrAbortHandler)
		}
	}
	tooLate := func([]int) { // made behind the last answer, before the kill
		if requests.Load() >= int64(number) {
			<-killed
			panic(http.ErrAbortHandler)
		}
	}
	if answered {
		r.after.Store(&hook)
		r.before.Store(&tooLate)
	} else {
		r.before.Store(&hook)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var last []int
	select {
	case last = <-reached:
	case err := <-ended:
		if err != nil {
			t.Errorf("it was not killed: %v\n%s", err, out.String())
		}
		return false
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-ended
	close(killed)
	r.before.Store(nil)
	r.after.Store(nil)
	r.begin(t, DeadLetter)
	defer r.end(t)
	r.redriveAll(t)
	got := r.counts()
	for n := range once(5) {
		if got[n] < 1 || got[n] > 1 && !(answered && slices.Contains(last, n)) {
			t.Errorf("killed at request %d, of %v: record %d was taken %d times", number, last, n, got[n])
		}
	}
	// A letter that comes twice may count twice.
	a := r.cursor.Account()
	if a.Delivered+a.DeadLettered != redriveRecords || a.Delivered < redriveRecords-1 || r.letters.stats().Letters != 1 {
		t.Errorf("got account %+v and %d letters, want all but one delivered", a, r.letters.stats().Letters)
	}
	return true
}

// Random rejections, outages, redrives, purges and restarts of the delivery: at the end
// every record was accepted, or purged by the operator; the ledger says so, and no letter
// was accepted twice.
func TestLettersUnderStress(t *testing.T) {
	t.Parallel()
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			stress(t, seed)
		})
	}
}

func stress(t *testing.T, seed uint64) {
	const n = 600
	dice := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	opts := queue.Options{Directory: dir}
	q, err := queue.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { q.Close(context.Background()) }()

	var mu sync.Mutex
	accepted, purged, redriven := map[uint64]bool{}, map[uint64]bool{}, map[uint64]int{}
	wild := true
	f := &funcSink{}
	f.send = func(ctx context.Context, b sinks.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		if wild {
			switch dice.IntN(6) {
			case 0:
				return errNet
			case 1, 2:
				if len(b.Items) == 0 {
					return errNet
				}
				var items []int
				for i := range b.Items {
					if dice.IntN(3) == 0 {
						items = append(items, i)
					}
				}
				if len(items) > 0 && dice.IntN(2) == 0 {
					return reject(items...)
				}
				return reject()
			}
		}
		for _, it := range b.Items {
			accepted[it.Seq] = true
			if it.Late == sinks.Redriven {
				redriven[it.Seq]++
			}
		}
		return nil
	}
	cfg := SinkConfig{Name: "test", Config: f, OnReject: DeadLetter, DeadLetters: defaultDeadLetters(),
		Batch: sinks.BatchLimits{MaxRecords: 10, MaxBytes: 1 << 20},
		Retry: RetryConfig{InitialBackoff: config.Duration(time.Millisecond), MaxBackoff: config.Duration(2 * time.Millisecond)}}
	var d *delivery
	var stop func()
	begin := func() {
		c, err := q.Cursor("test", false)
		if err != nil {
			t.Fatal(err)
		}
		d, err = newDelivery(cfg, queueFacts{id: q.ID(), directory: dir, lost: func() []segment.SeqRange { return nil }, stored: q.LastSeq, readAhead: readAhead(dir, q)}, &trackedCursor{Cursor: c}, newMetrics("x").delivery("test"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		d.letters.options.MaxBytes = 12000
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); d.run(ctx) }()
		stop = func() { cancel(); <-ended }
	}
	begin()
	ops := rand.New(rand.NewPCG(seed, 99))
	stored := 0
	for step := range 150 {
		if stored < n && ops.IntN(2) == 0 {
			put(t, q, stored+1, stored+10)
			stored += 10
		}
		switch ops.IntN(10) {
		case 0, 1:
			d.letters.redrive(nil)
		case 2, 3:
			list, _ := d.letters.list()
			if len(list) > 0 {
				l := list[ops.IntN(len(list))]
				d.letters.redrive([]uint64{l.Seq})
			}
		case 4:
			list, _ := d.letters.list()
			if len(list) > 0 {
				l := list[ops.IntN(len(list))]
				if k, _ := d.letters.purge([]uint64{l.Seq}); k == 1 {
					mu.Lock()
					purged[l.Seq] = true
					mu.Unlock()
				}
			}
		case 5:
			if step%5 == 0 {
				stop()
				if ops.IntN(2) == 0 {
					if err := q.Close(t.Context()); err != nil {
						t.Fatal(err)
					}
					if q, err = queue.Open(opts); err != nil {
						t.Fatal(err)
					}
				}
				begin()
			}
		}
		time.Sleep(time.Duration(ops.IntN(3000)) * time.Microsecond)
		a := q.Stats()
		s := a.Cursors["test"]
		if s.Delivered+s.Filtered+s.DeadLettered+s.Dropped+s.Corrupt+s.Pending(a.LastSeq) != a.LastSeq {
			t.Fatalf("the books do not balance: %+v", s)
		}
	}
	mu.Lock()
	wild = false
	mu.Unlock()
	defer func() { stop() }()
	for end := time.Now().Add(await.Left(t)); ; time.Sleep(5 * time.Millisecond) {
		d.letters.redrive(nil)
		if a := d.cursor.Account(); a.Pending(uint64(stored)) == 0 && d.letters.stats().Letters == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it does not end: %+v %+v, %+v", d.cursor.Account(), d.letters.stats(), d.snapshot())
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for seq := uint64(1); seq <= uint64(stored); seq++ {
		if !accepted[seq] && !purged[seq] {
			t.Errorf("record %d is LOST: never accepted, never purged", seq)
		}
		if redriven[seq] > 1 {
			t.Errorf("the letter of record %d was accepted %d times, and nobody was killed", seq, redriven[seq])
		}
	}
	a := d.cursor.Account()
	if a.Delivered+a.DeadLettered != uint64(stored) || a.DeadLettered > uint64(len(purged)) {
		t.Errorf("account %+v; purged %d, stored %d", a, len(purged), stored)
	}
}

// funcSink is a sink made of a function.
type funcSink struct {
	sinks.Config
	send func(context.Context, sinks.Batch) error
}

func (s *funcSink) Open(context.Context, sinks.Env) (sinks.Sink, error) { return s, nil }
func (s *funcSink) Close(context.Context) error                         { return nil }
func (s *funcSink) Send(ctx context.Context, b sinks.Batch) error       { return s.send(ctx, b) }

// reject is the answer of a destination that accepts other records.
func reject(items ...int) error {
	return &sinks.Failure{Kind: sinks.Rejected, Items: items, Taken: true, Said: sinks.Answer{Status: "400"}, Err: errors.New("400")}
}

type pushed struct {
	fakeCursor
	ch chan []queue.Record
}

func (c *pushed) Next(ctx context.Context, _ queue.Limits) ([]queue.Record, error) {
	select {
	case r := <-c.ch:
		return r, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// realDelivery is one from a queue with n records.
func realDelivery(t *testing.T, n int, cfg SinkConfig, letterBytes int64) (*delivery, *queue.Queue) {
	t.Helper()
	dir := t.TempDir()
	q, err := queue.Open(queue.Options{Directory: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close(context.Background()) })
	put(t, q, 1, n)
	c, err := q.Cursor("test", false)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Name, cfg.DeadLetters = "test", defaultDeadLetters()
	if cfg.Batch.MaxRecords == 0 {
		cfg.Batch = sinks.DefaultBatch()
	}
	cfg.Batch.MaxWait = 0
	cfg.Retry = RetryConfig{InitialBackoff: config.Duration(10 * time.Millisecond), MaxBackoff: config.Duration(20 * time.Millisecond)}
	if cfg.OnReject == "" {
		cfg.OnReject = DeadLetter
	}
	d, err := newDelivery(cfg, queueFacts{id: q.ID(), directory: dir, lost: func() []segment.SeqRange { return nil }, stored: q.LastSeq, readAhead: readAhead(dir, q)}, c, newMetrics("x").delivery("test"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if letterBytes > 0 {
		d.letters.options.MaxBytes = letterBytes
	}
	return d, q
}

func put(t *testing.T, q *queue.Queue, from, to int) {
	t.Helper()
	var lines []byte
	for i := from; i <= to; i++ {
		lines = fmt.Appendf(lines, "{\"n\":%d}\n", i)
	}
	settled := make(chan struct{})
	if err := q.Append(t.Context(), &queue.Chunk{Source: "s", Received: time.Now(), Records: lines, Count: to - from + 1}, func() { close(settled) }); err != nil {
		t.Fatal(err)
	}
	<-settled
}

// A dead letter store on a disk that hangs must not hold up the stop.
func TestHungLettersDoNotHoldUpTheStop(t *testing.T) {
	t.Parallel() // it takes closeTimeout
	cfg := &Config{
		Queue:    QueueConfig{Directory: t.TempDir(), MaxBytes: 1 << 30, WhenFull: Block},
		Shutdown: ShutdownConfig{DrainTimeout: config.Duration(100 * time.Millisecond)},
		Limits:   defaultLimits(),
		Sinks:    []SinkConfig{{Name: "a", Batch: sinks.DefaultBatch(), Retry: defaultRetry(), DeadLetters: defaultDeadLetters(), OnReject: DeadLetter, From: Oldest, Config: &pickySink{}}},
	}
	e, err := New(cfg, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l := e.letters("a")
	l.opening.Lock() // a read that does not return
	t.Cleanup(func() {
		l.opening.Unlock()
		await.Until(t, "the delivery has ended, and makes no more files", func() bool {
			l.opening.Lock()
			defer l.opening.Unlock()
			return l.closed
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	cancel()
	select {
	case <-done:
	case <-time.After(await.Left(t)):
		t.Error("the exporter does not stop")
	}
}

// A redriving letter that is damaged must not keep the books from being settled for ever.
func TestDamagedRedrivingLetter(t *testing.T) {
	s := &pickySink{poison: []uint64{2}}
	d, q := realDelivery(t, 3, SinkConfig{Config: s}, 0)
	start(t, d)
	await.Until(t, "set aside", func() bool { return q.Stats().Cursors["test"].DeadLettered == 1 })
	path := filepath.Join(d.letters.dir, "letters.log")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-3] ^= 1
	f, _ := os.OpenFile(path, os.O_WRONLY, 0)
	f.WriteAt(b, 0)
	f.Close()
	d.letters.redrive(nil)
	// Else every stop would wait for it until drainTimeout.
	await.Until(t, "a damaged letter that is not pending", func() bool { return q.Stats().Cursors["test"].Pending(3) == 0 })
}
