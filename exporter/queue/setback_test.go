package queue

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// plan says what setting sink a of q back to record from means.
func plan(t *testing.T, q *Queue, from uint64) (before, after Account) {
	t.Helper()
	r, err := live(t, q).PlanReplay(t.Context(), "a", from, func(segment.SeqRange) (kept, redriving uint64) { return 0, 0 })
	must(t, err)
	return r.Before, r.After
}

// A sink that is set back gets its records again, also after a crash right behind it.
func TestSetBack(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 9, 2)
	drain(t, q, c)
	must(t, c.Settle(9, Outcome{Filtered: 2}))
	c.Close()
	before, after := plan(t, q, 4)
	must(t, q.SetBack(t.Context(), "a", before, after))
	file, durable, err := state.OpenCursorFile(disk.OS(""), opts.Directory)
	must(t, err)
	must(t, file.File.Close())
	if durable["a"] != after {
		t.Errorf("on the disk: got %+v, want %+v", durable["a"], after)
	}
	killed(t, q)
	q = open(t, opts)
	if got := q.Stats().Cursors["a"]; got != after || got.Next != 4 {
		t.Errorf("after a crash: got %+v, want %+v", got, after)
	}
	equal(t, "again", drain(t, q, cursorOf(t, q, "a")), numbered(4, 9))
}

func TestSetBackIsRefused(t *testing.T) {
	const seg = 16 << 10
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: seg, Retain: Retain{MaxBytes: 4 * seg}})
	c := cursorOf(t, q, "a")
	fillTo := func(n int) {
		for q.LastSeq() < uint64(n) {
			store(t, q, chunk(strings.Repeat("x", 3000)))
		}
		drain(t, q, c)
		must(t, c.Ack(q.LastSeq()))
	}
	fillTo(20)
	before, after := plan(t, q, q.Stats().FirstSeq)
	refused := func(what, want string) {
		t.Helper()
		if err := q.SetBack(t.Context(), "a", before, after); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want that %s", what, err, want)
		}
	}
	refused("while it is read", "has changed meanwhile")
	fillTo(21)
	c.Close()
	refused("after more was done", "has changed meanwhile")
	c = cursorOf(t, q, "a")
	first := q.Stats().FirstSeq
	fillTo(60)
	eventually(t, "segments go", func() bool { return q.Stats().FirstSeq > first })
	c.Close()
	before = q.Stats().Cursors["a"]
	refused("what is no longer kept", "has just been removed: a replay can begin at record ")
	if got := q.Stats().Cursors["a"]; got != before {
		t.Errorf("got %+v, want it unchanged: %+v", got, before)
	}
}

// What a sink is set back to stays until it is delivered again.
func TestSetBackKeepsItsSegments(t *testing.T) {
	const seg = 16 << 10
	q := open(t, Options{Directory: t.TempDir(), SegmentBytes: seg, Retain: Retain{MaxBytes: 4 * seg}})
	a, b := cursorOf(t, q, "a"), cursorOf(t, q, "b")
	fillTo := func(n int, cursors ...*Cursor) {
		for q.LastSeq() < uint64(n) {
			store(t, q, chunk(strings.Repeat("x", 3000)))
		}
		for _, c := range cursors {
			drain(t, q, c)
			must(t, c.Ack(q.LastSeq()))
		}
	}
	fillTo(20, a, b)
	a.Close()
	from := q.Stats().FirstSeq
	before, after := plan(t, q, from)
	must(t, q.SetBack(t.Context(), "a", before, after))
	fillTo(80, b)
	must(t, q.saveAccounts(t.Context())) // the janitor has been there
	if got := drain(t, q, cursorOf(t, q, "a")); len(got) != int(81-from) {
		t.Errorf("got %d records, want all from %d on", len(got), from)
	}
}
