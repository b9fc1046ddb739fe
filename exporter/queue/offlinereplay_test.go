package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// retained makes a queue that is closed and keeps all of its records 1 to 12, one
// a minute from start on, three to a segment. Sink a has done 10 of them.
func retained(t *testing.T) (opts Options, start time.Time) {
	t.Helper()
	opts = Options{Directory: t.TempDir(), SegmentBytes: 1, Retain: Retain{MaxBytes: 1 << 30}}
	start = time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	for i := range 4 {
		var records []string
		for n := 3*i + 1; n <= 3*i+3; n++ {
			records = append(records, fmt.Sprintf(`{"n":%d}`, n))
		}
		chunk := chunk(records...)
		chunk.Received = start.Add(time.Duration(i) * time.Minute)
		store(t, q, chunk)
	}
	drain(t, q, c)
	must(t, c.Ack(10))
	closeQueue(t, q)
	return opts, start
}

func TestReplay(t *testing.T) {
	opts, start := retained(t)
	o := offline(t, opts)
	r, err := o.PlanReplay(t.Context(), "a", 5, noLetters)
	must(t, err)
	if r.Records != (segment.SeqRange{From: 5, To: 11}) || r.Count() != 6 || !r.Oldest.Equal(start.Add(time.Minute)) || !r.Newest.Equal(start.Add(3*time.Minute)) {
		t.Errorf("got %+v, want records 5 to 10 of the second to the fourth minute", r)
	}
	if a, _ := o.Sink("a"); a.Next != 11 {
		t.Errorf("got a sink at %d after planning, want it where it was, at 11", a.Next)
	}
	o = setAccount(t, opts, o, r.Sink, r.After)
	must(t, o.Close())

	q := open(t, opts)
	if a := counts(q.Stats().Cursors["a"]); a != (Account{Next: 5, Delivered: 4, ReplayTo: 11}) {
		t.Errorf("account: got %+v, want 4 delivered and a replay up to 11", a)
	}
	c := cursorOf(t, q, "a")
	equal(t, "delivered again", drain(t, q, c), numbered(5, 12))
	must(t, c.Ack(12))
	if a := counts(c.Account()); a != (Account{Next: 13, Delivered: 12, ReplayTo: 11}) {
		t.Errorf("account after the replay: got %+v, want all 12 delivered", a)
	}
}

// A replay from the sink's place delivers nothing again, and is still one: a destination that
// keeps the sink's position goes on there. Each counts as later than the one before, whatever
// the clock says.
func TestReplayFromWhereItStands(t *testing.T) {
	opts, _ := retained(t)
	o := offline(t, opts)
	before, _ := o.Sink("a")
	for range 2 {
		r, err := o.PlanReplay(t.Context(), "a", 11, noLetters)
		must(t, err)
		if r.Count() != 0 || counts(r.After) != counts(before) || r.After.Replayed <= before.Replayed {
			t.Errorf("got %+v, want %+v and a later replay", r, before)
		}
		o = setAccount(t, opts, o, r.Sink, r.After)
		before = r.After
		before.Replayed += int64(time.Hour) // the clock is set back now
		o = setAccount(t, opts, o, "a", before)
	}
}

func TestReplayFails(t *testing.T) {
	opts, start := retained(t)
	o := offline(t, opts)
	for name, tt := range map[string]struct {
		sink string
		from uint64
		want string
	}{
		"sink unknown": {"b", 3, `has no sink "b"`},
		"not done yet": {"a", 12, "has not passed record 12 yet"},
		"record 0":     {"a", 0, "a replay can begin at record 1, received 2026-01-05T10:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := o.PlanReplay(t.Context(), tt.sink, tt.from, noLetters); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
	if _, err := o.ReplayAt(t.Context(), "a", start.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "nothing to replay") {
		t.Errorf("got %v for a time after all records, want that there is nothing to replay", err)
	}
}

func TestReplayAt(t *testing.T) {
	opts, start := retained(t)
	o := offline(t, opts)
	for after, want := range map[time.Duration]uint64{
		-time.Hour: 1, 0: 1, time.Nanosecond: 4, time.Minute: 4, 2 * time.Minute: 7, 3 * time.Minute: 10,
	} {
		got, err := o.ReplayAt(t.Context(), "a", start.Add(after))
		must(t, err)
		if got != want {
			t.Errorf("%s after the first: got record %d, want %d", after, got, want)
		}
	}
}

// What is no longer kept cannot be replayed, and the error says what can.
func TestReplayOfWhatIsGone(t *testing.T) {
	opts, start := retained(t)
	segments := segmentFiles(t, opts.Directory)
	must(t, disk.OS("").Remove(segments[0]))
	check := func(what string, err error, seq uint64, received time.Time, why string) {
		t.Helper()
		want := fmt.Sprintf(": a replay can begin at record %d, received %s", seq, received.UTC().Format(time.RFC3339))
		if err == nil || !strings.Contains(err.Error(), why) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s%s", what, err, why, want)
		}
	}
	o := offline(t, opts)
	_, err := o.PlanReplay(t.Context(), "a", 3, noLetters)
	check("a record", err, 4, start.Add(time.Minute), "no longer kept")
	_, err = o.ReplayAt(t.Context(), "a", start)
	check("a time", err, 4, start.Add(time.Minute), "no longer kept")
	must(t, o.Close())

	// A hole that nobody has counted as lost.
	must(t, disk.OS("").Remove(segments[2]))
	o = offline(t, opts)
	_, err = o.PlanReplay(t.Context(), "a", 5, noLetters)
	check("before a hole", err, 10, start.Add(3*time.Minute), "records 7 to 9 cannot be found")
	o = setAccount(t, opts, o, "a", Account{Next: 6, Delivered: 5})
	if _, err = o.PlanReplay(t.Context(), "a", 4, noLetters); err != nil {
		t.Errorf("got %v, want that a hole beyond the sink does not matter", err)
	}
}

// The books balance after a replay over damage, and again when it is done.
func TestReplayOverDamage(t *testing.T) {
	opts, _ := retained(t)
	s := fileOf(t, segmentFiles(t, opts.Directory)[1])
	flip(t, s.path, s.at[1]-4) // records 4 to 6
	q := open(t, opts)
	b := cursorOf(t, q, "b")
	drain(t, q, b)
	must(t, b.Ack(12))
	closeQueue(t, q)

	o := offline(t, opts)
	for sink, want := range map[string]Account{
		"a": {Next: 2, Delivered: 1, ReplayTo: 11}, // it had them before they were lost
		"b": {Next: 2, Delivered: 1, ReplayTo: 13},
	} {
		r, err := o.PlanReplay(t.Context(), sink, 2, noLetters)
		must(t, err)
		if counts(r.After) != want || r.Lost != 3 {
			t.Errorf("%s: got %+v and %d lost, want %+v and 3", sink, r.After, r.Lost, want)
		}
		o = setAccount(t, opts, o, r.Sink, r.After)
	}
	must(t, o.Close())
	q = open(t, opts)
	for _, sink := range []string{"a", "b"} {
		c := cursorOf(t, q, sink)
		equal(t, sink, drain(t, q, c), slices.Concat(numbered(2, 3), numbered(7, 12)))
		must(t, c.Ack(12))
		if a := c.Account(); a.Delivered != 9 || a.Corrupt != 3 || a.Next != 13 {
			t.Errorf("%s: got %+v, want 9 delivered and 3 corrupt", sink, a)
		}
	}
}

// noLetters says that nothing is dead-lettered.
func noLetters(segment.SeqRange) uint64 { return 0 }

// setAccount gives a sink of the queue o, at rest, another account, and opens the queue again.
func setAccount(t *testing.T, opts Options, o *inspect.Queue, sink string, a Account) *inspect.Queue {
	t.Helper()
	must(t, o.Close())
	file, accounts, err := state.OpenCursorFile(disk.OS(""), opts.Directory)
	must(t, err)
	accounts[sink] = a
	must(t, file.Write(accounts))
	must(t, file.File.Close())
	return offline(t, opts)
}
