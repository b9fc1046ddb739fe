package queue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// plan says what setting sink a of q back to record from means.
func plan(t *testing.T, q *Queue, from uint64) (before, after Account) {
	t.Helper()
	r, err := live(t, q).PlanReplay(t.Context(), "a", from, func(segment.SeqRange) uint64 { return 0 })
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

// A sink that is new to the queue is told from the one that had its name before: its account
// is of a later replay, durably. Where the accounts are lost nobody knows, and until the next
// start no sink is taken for a new one.
func TestNewSinkUnderAnOldName(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	storeNumbered(t, q, 1, 9, 2)
	c := cursorOf(t, q, "a")
	first := c.Account()
	drain(t, q, c)
	must(t, c.Ack(9))
	c.Close()
	q.Forget("a")
	c = cursorOf(t, q, "a")
	if again := c.Account(); first.Replayed == 0 || again.Replayed <= first.Replayed || again.Next != 1 {
		t.Errorf("new: got %+v after %+v, want it at the first record and of a later replay", again, first)
	}
	must(t, c.Save(t.Context()))
	want := c.Account()
	killed(t, q)
	q = open(t, opts)
	if got := cursorOf(t, q, "a").Account(); got != want {
		t.Errorf("after a kill: got %+v, want %+v", got, want)
	}
	killed(t, q)

	must(t, os.Remove(filepath.Join(opts.Directory, state.CursorsFile)))
	q = open(t, opts)
	c = cursorOf(t, q, "a")
	if got := c.Account(); got.Replayed != 0 || got.Next != 1 {
		t.Errorf("without the cursors file: got %+v, want it at the first record and of no replay that is known", got)
	}
	c.SetReplayed(want.Replayed)
	must(t, c.Save(t.Context()))
	killed(t, q)
	q = open(t, opts)
	if got := cursorOf(t, q, "a").Account(); got.Replayed != want.Replayed {
		t.Errorf("the replay is told: got %+v after a kill, want that of %d", got, want.Replayed)
	}
	if got := cursorOf(t, q, "b").Account(); got.Replayed == 0 {
		t.Errorf("another sink: got %+v, want it to be new", got)
	}
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
	fillTo(10) // two segments: none goes before more are there
	before, after := plan(t, q, q.Stats().FirstSeq)
	refused := func(what, want string) {
		t.Helper()
		if err := q.SetBack(t.Context(), "a", before, after); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want that %s", what, err, want)
		}
	}
	refused("while it is read", "has changed meanwhile")
	fillTo(11)
	c.Close()
	refused("after more was done", "has changed meanwhile")
	c = cursorOf(t, q, "a")
	first := q.Stats().FirstSeq
	fillTo(60)
	await.Until(t, "segments go", func() bool { return q.Stats().FirstSeq > first })
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
	var from uint64
	await.Until(t, "the sink is set back", func() bool {
		from = q.Stats().FirstSeq // the janitor may let it go meanwhile: then an operator asks again
		r, err := live(t, q).PlanReplay(t.Context(), "a", from, noLetters)
		return err == nil && q.SetBack(t.Context(), "a", r.Before, r.After) == nil
	})
	fillTo(80, b)
	must(t, q.saveAccounts(t.Context())) // the janitor has been there
	if got := drain(t, q, cursorOf(t, q, "a")); len(got) != int(81-from) {
		t.Errorf("got %d records, want all from %d on", len(got), from)
	}
}
