package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/state"
)

// open opens a queue and closes it at the end of the test, unless closed before.
// Without a size its segments are small ones.
func open(t *testing.T, opts Options) *Queue {
	t.Helper()
	if opts.SegmentBytes == 0 {
		opts.SegmentBytes = minSegmentBytes
	}
	q, err := Open(opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { closeQueue(t, q) })
	return q
}

// prepared waits until the next segment is ready, so that what happens on the disk
// from now on is the test's doing.
func prepared(t *testing.T, q *Queue) {
	t.Helper()
	await.Until(t, "the next segment is ready", func() bool {
		q.pool.mu.Lock()
		defer q.pool.mu.Unlock()
		next := q.pool.next
		return len(q.prepare) == 0 && next != nil && next.written >= next.size
	})
}

// killed ends q as SIGKILL does: who comes next finds the directory as it is now.
func killed(t *testing.T, q *Queue) {
	t.Helper()
	prepared(t, q) // files must not come and go while they are copied
	dir, copied := q.opts.Directory, ""
	await.Until(t, "the cursors file is there", func() bool {
		_, err := os.Stat(filepath.Join(dir, state.CursorsFile))
		return err == nil
	})
	await.Until(t, "nothing changes during the copy", func() bool {
		copied = filepath.Join(t.TempDir(), "copy")
		return os.CopyFS(copied, os.DirFS(dir)) == nil
	})
	closeQueue(t, q)
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		must(t, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	must(t, os.CopyFS(dir, os.DirFS(copied)))
}

func closeQueue(t *testing.T, q *Queue) {
	t.Helper()
	if err := q.Close(context.Background()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// highest is the position of a producer of which no number is expected to be missing.
func highest(ctx context.Context, q *Queue, p Producer) (number uint64, known bool, err error) {
	n, known, err := q.Position(ctx, p)
	return n.Highest, known, err
}

func chunk(records ...string) *Chunk {
	c := &Chunk{Source: "test", Received: time.Now(), Count: len(records), Lines: len(records)}
	for _, r := range records {
		c.Records = append(append(c.Records, r...), '\n')
	}
	return c
}

// store appends a chunk and waits until it is durable.
func store(t *testing.T, q *Queue, c *Chunk) {
	t.Helper()
	settled := make(chan struct{})
	if err := q.Append(context.Background(), c, func() { close(settled) }); err != nil {
		t.Fatalf("Append: %v", err)
	}
	<-settled
}

func cursorOf(t *testing.T, q *Queue, name string) *Cursor {
	t.Helper()
	c, err := q.Cursor(name, false)
	if err != nil {
		t.Fatalf("Cursor: %v", err)
	}
	return c
}

// drain returns "seq:data" of everything durable that c has not returned.
func drain(t *testing.T, q *Queue, c *Cursor) []string {
	t.Helper()
	var got []string
	for c.next <= q.LastSeq() {
		records, err := c.Next(context.Background(), Limits{Records: 7, Bytes: 1 << 20})
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		for _, r := range records {
			got = append(got, fmt.Sprintf("%d:%s", r.Seq, r.Data))
		}
		if c.next > q.LastSeq() {
			break
		}
	}
	return got
}

func numbered(from, to int) (want []string) {
	for i := from; i <= to; i++ {
		want = append(want, fmt.Sprintf(`%d:{"n":%d}`, i, i))
	}
	return want
}

// storeNumbered stores records from..to, each {"n":<its seq>}, per at a time.
func storeNumbered(t *testing.T, q *Queue, from, to, per int) {
	t.Helper()
	for i := from; i <= to; i += per {
		var records []string
		for n := i; n < i+per && n <= to; n++ {
			records = append(records, fmt.Sprintf(`{"n":%d}`, n))
		}
		store(t, q, chunk(records...))
	}
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got  %q\n want %q", what, got, want)
	}
}

func TestNextRespectsLimits(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir()})
	store(t, q, chunk("aaaa", "bbbb", "cccc", strings.Repeat("d", 50), "e"))
	tests := map[string]struct {
		lim  Limits
		want []int // sizes of the batches
	}{
		"by count":                   {Limits{Records: 2, Bytes: 1000}, []int{2, 2, 1}},
		"by bytes":                   {Limits{Records: 100, Bytes: 10}, []int{2, 1, 1, 1}},
		"large record comes alone":   {Limits{Records: 100, Bytes: 1}, []int{1, 1, 1, 1, 1}},
		"everything that is there":   {Limits{Records: 100, Bytes: 1000}, []int{5}},
		"waits for no more than due": {Limits{Records: 100, Bytes: 1000, Wait: time.Nanosecond}, []int{5}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := cursorOf(t, q, name)
			var got []int
			for c.next <= q.LastSeq() {
				records, err := c.Next(context.Background(), tt.lim)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, len(records))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("batches: got %v, want %v", got, tt.want)
			}
		})
	}
}

// A batch that is full takes more of a backlog, and waits for none that is to come.
func TestNextTakesMoreOfABacklog(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir()})
	store(t, q, chunk("aaaa", "bbbb", "cccc", "dddd", "eeee", "ffff", "gggg"))
	for name, tt := range map[string]struct {
		most struct{ Records, Bytes int }
		want []int // sizes of the batches
	}{
		"none":       {want: []int{2, 2, 2}},
		"less":       {struct{ Records, Bytes int }{1, 1}, []int{2, 2, 2}},
		"by count":   {struct{ Records, Bytes int }{5, 1000}, []int{5, 2}},
		"by bytes":   {struct{ Records, Bytes int }{5, 14}, []int{3, 3}},
		"everything": {struct{ Records, Bytes int }{100, 1000}, []int{7}},
	} {
		t.Run(name, func(t *testing.T) {
			c := cursorOf(t, q, name)
			ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
			defer cancel()
			for _, want := range tt.want {
				records, err := c.Next(ctx, Limits{Records: 2, Bytes: 10, Wait: time.Hour, Most: tt.most})
				must(t, err)
				if ctx.Err() != nil {
					t.Fatal("a batch that is full waits for more")
				}
				if len(records) != want {
					t.Fatalf("got a batch of %d records, want those of %v", len(records), tt.want)
				}
			}
		})
	}
}

func TestNextWaitsForABatchToFill(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir()})
	c := cursorOf(t, q, "a")
	got := make(chan int)
	go func() {
		records, _ := c.Next(context.Background(), Limits{Records: 3, Bytes: 1000, Wait: time.Hour})
		got <- len(records)
	}()
	for range 3 {
		store(t, q, chunk("{}"))
	}
	if n := <-got; n != 3 {
		t.Errorf("batch: got %d records, want 3", n)
	}
}

func TestNewSinkFromNow(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir()})
	storeNumbered(t, q, 1, 3, 1)
	c, err := q.Cursor("late", true)
	must(t, err)
	storeNumbered(t, q, 4, 4, 1)
	equal(t, "from now", drain(t, q, c), numbered(4, 4))
	if got := counts(c.Account()); got != (Account{Next: 4, Filtered: 3}) {
		t.Errorf("account: got %+v, want the first three filtered", got)
	}
}

func TestQueueInUse(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	open(t, opts)
	_, err := Open(opts)
	inUse, ok := errors.AsType[*state.InUseError](err)
	if !ok || inUse.Holder.PID != os.Getpid() {
		t.Fatalf("second Open: got %v, want *state.InUseError with our pid", err)
	}
}

// fill stores records of 1 KiB until the queue is full and returns the last seq.
func fill(t *testing.T, q *Queue) uint64 {
	t.Helper()
	for range 1000 {
		c := chunk(strings.Repeat("x", 1024))
		q.mu.Lock()
		ok := q.hasRoom(c.FrameSize())
		q.mu.Unlock()
		if !ok {
			return q.LastSeq()
		}
		store(t, q, c)
	}
	t.Fatal("queue never full")
	return 0
}

func TestManyAppendersAndCursors(t *testing.T) {
	const producers, each = 8, 500
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 64 << 10})
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				c := chunk(fmt.Sprintf("%d/%d", p, i))
				c.Producer, c.Position = fmt.Sprint(p), uint64(i+1)
				if err := q.Append(context.Background(), c, nil); err != nil {
					t.Errorf("Append: %v", err)
				}
			}
		})
	}
	for _, name := range []string{"a", "b", "c"} {
		c := cursorOf(t, q, name)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), await.Left(t))
			defer cancel()
			next := map[string]int{}
			for seq := uint64(0); seq < producers*each; {
				records, err := c.Next(ctx, Limits{Records: 100, Bytes: 1 << 20})
				if err != nil {
					t.Errorf("Next: %v", err)
					return
				}
				for _, r := range records {
					seq++
					if want := fmt.Sprintf("%s/%d", r.Producer, next[r.Producer]); string(r.Data) != want || r.Seq != seq {
						t.Errorf("record %d: got seq %d, %q, want %q", seq, r.Seq, r.Data, want)
						return
					}
					next[r.Producer]++
				}
				if err := c.Ack(seq); err != nil {
					t.Errorf("Ack: %v", err)
				}
			}
		})
	}
	wg.Wait()
	s := q.Stats()
	for name, a := range s.Cursors {
		if counts(a) != (Account{Next: producers*each + 1, Delivered: producers * each}) {
			t.Errorf("account of %s: %+v", name, a)
		}
	}
}

func TestAckOfWhatWasNotReturned(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir()})
	storeNumbered(t, q, 1, 2, 2)
	if err := cursorOf(t, q, "a").Ack(1); err == nil {
		t.Error("Ack before Next succeeded")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, path string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	b := []byte{0}
	_, err = f.ReadAt(b, offset)
	must(t, err)
	b[0] ^= 0x10
	_, err = f.WriteAt(b, offset)
	must(t, err)
}

// A record stamped by a clock that was ahead does not wait for that time.
func TestRecordFromTheFutureDoesNotHoldTheBatch(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir()})
	c := chunk("{}")
	c.Received = time.Now().Add(time.Hour)
	store(t, q, c)
	ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
	defer cancel()
	if _, err := cursorOf(t, q, "a").Next(ctx, Limits{Records: 10, Bytes: 1000, Wait: 10 * time.Millisecond}); err != nil {
		t.Errorf("a batch that may wait 10 ms: %v", err)
	}
}
