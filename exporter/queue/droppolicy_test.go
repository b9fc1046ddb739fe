package queue

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What is dropped is counted for each sink by what it had not passed, and no sink
// that has passed it loses anything.
func TestDropOldestCountsBySink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts := Options{Directory: t.TempDir(), SegmentBytes: 16 << 10, MaxBytes: 6 * 16 << 10, WhenFull: DropOldest}
		q := open(t, opts)
		live, half := cursorOf(t, q, "live"), cursorOf(t, q, "half")
		cursorOf(t, q, "dead").Close()
		var got []string
		for n := 1; n <= 100; n++ {
			store(t, q, chunk(fmt.Sprintf("%d %s", n, strings.Repeat("x", 3000))))
			got = append(got, drain(t, q, live)...)
			must(t, live.Ack(uint64(n)))
			if n == 5 {
				drain(t, q, half)
				must(t, half.Ack(3))
			}
		}
		time.Sleep(time.Second)
		if len(got) != 100 {
			t.Errorf("the sink that keeps up got %d records, want 100", len(got))
		}
		s := q.Stats()
		first := s.FirstSeq
		if first < 50 {
			t.Fatalf("first kept record: got %d, want most dropped", first)
		}
		want := map[string]Account{
			"live": {Next: 101, Delivered: 100},
			"half": {Next: first, Delivered: 3, Dropped: first - 4, ForRoom: first - 4},
			"dead": {Next: first, Dropped: first - 1, ForRoom: first - 1},
		}
		for name, a := range want {
			if counts(s.Cursors[name]) != a {
				t.Errorf("account of %s: got %+v, want %+v", name, s.Cursors[name], a)
			}
		}
		if s.LastDrop.IsZero() {
			t.Error("the last drop has no time")
		}
		rest := drain(t, q, half)
		if len(rest) != int(101-first) || !strings.HasPrefix(rest[0], fmt.Sprintf("%d:%d ", first, first)) {
			t.Errorf("the sink that was behind goes on with %d records from %.20q, want those from %d on", len(rest), rest, first)
		}
		closeQueue(t, q)
		q = open(t, opts)
		if got := q.Stats().Cursors; counts(got["dead"]) != want["dead"] || counts(got["half"]) != want["half"] {
			t.Errorf("accounts after a restart: got %+v, want %+v", got, want)
		}
	})
}

// A sink that hangs on to a batch is behind, also when the batch was dropped: the age of
// what it has yet to deliver is that of the records which are left.
func TestOldestPendingBehindADrop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 16 << 10, MaxBytes: 8 * 16 << 10, WhenFull: DropOldest})
		c := cursorOf(t, q, "dead")
		received := map[uint64]time.Time{}
		for n := uint64(1); n <= 100; n++ {
			time.Sleep(time.Minute)
			received[n] = time.Now()
			store(t, q, chunk(strings.Repeat("x", 3000)))
			if n == 1 {
				if _, err := c.Next(t.Context(), Limits{Records: 1, Bytes: 1 << 20}); err != nil {
					t.Fatal(err)
				}
			}
			next := q.Stats().Cursors["dead"].Next
			oldest, ok := c.OldestPending()
			if age := received[next].Sub(oldest); !ok || age < 0 || age > 2*time.Minute {
				t.Fatalf("record %d is the oldest, received at %v; got %v, %v", next, received[next], oldest, ok)
			}
		}
		if q.Stats().Cursors["dead"].Dropped == 0 {
			t.Error("nothing was dropped")
		}
	})
}
