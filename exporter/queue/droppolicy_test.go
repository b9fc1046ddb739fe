package queue

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
)

// A queue that drops takes a record whatever its sinks do, also when the record
// before was larger than a segment and the file that it has made is most of the
// queue.
func TestDropOldestAfterARecordLargerThanASegment(t *testing.T) {
	const seg = 64 << 10
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: seg, MaxBytes: 5 * seg, WhenFull: DropOldest})
	cursorOf(t, q, "dead")
	store(t, q, chunk(strings.Repeat("x", 4*seg)))
	ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
	defer cancel()
	for n := range 3 {
		if err := q.Append(ctx, chunk(fmt.Sprintf("%d %s", n, strings.Repeat("x", seg/2))), nil); err != nil {
			t.Fatalf("record %d behind the large one: %v; %+v", n+1, err, q.Stats())
		}
	}
}

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

// A queue that must not drop never does.
func TestNothingIsDroppedWithoutDropOldest(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 8 << 10, MaxBytes: 40 << 10})
	c := cursorOf(t, q, "slow")
	last := fill(t, q)
	if s := q.Stats(); s.FirstSeq != 1 || s.Cursors["slow"].Dropped != 0 || !s.LastDrop.IsZero() {
		t.Errorf("full queue: %+v", s)
	}
	if got := len(drain(t, q, c)); got != int(last) {
		t.Errorf("delivered: got %d, want %d", got, last)
	}
}

// Damage within what is dropped is counted as corrupt once a sink has met it, and
// the rest as dropped: nothing twice.
func TestDropOldestOverDamage(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 16 << 10, MaxBytes: 6 * 16 << 10, WhenFull: DropOldest}
	q := open(t, opts)
	cursorOf(t, q, "dead")
	for n := 1; n <= 8; n++ {
		store(t, q, chunk(fmt.Sprintf("%d %s", n, strings.Repeat("x", 3000))))
	}
	closeQueue(t, q)
	flip(t, segmentFiles(t, opts.Directory)[0], segment.HeaderSize+200) // record 1
	q = open(t, opts)
	scout := cursorOf(t, q, "scout")
	if got := drain(t, q, scout); len(got) != 7 {
		t.Fatalf("the scout got %d records, want 7", len(got))
	}
	for n := 9; n <= 60; n++ {
		store(t, q, chunk(fmt.Sprintf("%d %s", n, strings.Repeat("x", 3000))))
	}
	a := q.Stats().Cursors["dead"]
	if a.Corrupt != 1 || a.Next-1 != a.Dropped+a.Corrupt {
		t.Errorf("account of the dead sink: got %+v, want 1 corrupt and the rest dropped", a)
	}
	kept, err := os.ReadDir(q.path(state.QuarantineDir))
	if err != nil || len(kept) != 1 || !slices.Contains([]string{segment.Name{FirstSeq: 1, Epoch: 1}.String() + ".4096-8192"}, kept[0].Name()) && !strings.HasPrefix(kept[0].Name(), segment.Name{FirstSeq: 1, Epoch: 1}.String()) {
		t.Errorf("quarantine: got %v, %v, want the bytes of record 1", kept, err)
	}
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
