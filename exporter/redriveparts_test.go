package exporter

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
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
	export   *filesink.Config // in place of the receiver
	pause    time.Duration    // after a first failure, from the next begin on
	readOnly bool             // the letters are
	maxBytes int64            // of the letters, from the next begin on; 0: enough
	stop     func()
	stopping <-chan struct{} // closed by stop
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

// patient is an account that waits for its disk as long as that takes: what is accepted
// is not to come again because a disk that is slow here was taken for one that hangs.
type patient struct{ account }

func (p patient) Redelivered(ctx context.Context, n uint64, remove func() error) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return p.account.Redelivered(context.WithoutCancel(ctx), n, remove)
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
	to := httpsink.Definition.NewConfig().(*httpsink.Config)
	to.URL = r.url
	cfg := SinkConfig{Name: "test", Config: to, OnReject: policy, DeadLetters: defaultDeadLetters(), Batch: sinks.DefaultBatch(),
		Retry: RetryConfig{InitialBackoff: config.Duration(r.pause), MaxBackoff: config.Duration(2 * r.pause)}}
	cfg.Batch.MaxWait = 0
	if r.export != nil {
		cfg.Config = orderedSink{r.export}
	}
	facts := queueFacts{id: r.queue.ID(), directory: r.dir, lost: func() []segment.SeqRange { return nil }, stored: r.queue.LastSeq, readAhead: readAhead(r.dir, r.queue)}
	if r.delivery, err = newDelivery(cfg, facts, c, newMetrics("x").delivery("test"), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if r.maxBytes > 0 {
		r.letters.options.MaxBytes = r.maxBytes
	}
	r.letters.account, r.letters.options.ReadOnly = patient{c}, r.readOnly
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
	got := queue.Account{Delivered: a.Delivered, DeadLettered: a.DeadLettered, Dropped: a.Dropped, Redriving: a.Redriving}
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
