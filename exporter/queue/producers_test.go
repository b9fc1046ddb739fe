package queue

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// counted is a chunk of a producer that moves its position and no more.
func counted(producer string, position uint64) *Chunk {
	return &Chunk{Source: "test", Producer: producer, Position: position, Received: time.Now(), Duplicates: 1}
}

// expectKnown fails unless the queue remembers exactly the producers with a
// position other than 0.
func expectKnown(t *testing.T, q *Queue, when string, want map[string]uint64) {
	t.Helper()
	for producer, number := range want {
		got, known, err := highest(t.Context(), q, Producer{Source: "test", Name: producer})
		if got != number || known != (number > 0) || err != nil {
			t.Errorf("%s: producer %s: got %d, known %t, %v, want %d", when, producer, got, known, err, number)
		}
	}
}

// said is a chunk of lines from to to.
func said(p Producer, from, to uint64) *Chunk {
	return &Chunk{
		Source: p.Source, Identity: p.Identity, Producer: p.Name,
		Position: to, Received: time.Now(), Duplicates: int(to - from + 1),
	}
}

func receivedOf(t *testing.T, q *Queue, p Producer) Numbers {
	t.Helper()
	n, _, err := q.Position(t.Context(), p)
	must(t, err)
	return n
}

func expectNumbers(t *testing.T, q *Queue, when string, p Producer, highest uint64, gaps ...Gap) {
	t.Helper()
	if got, want := fmt.Sprint(receivedOf(t, q, p)), fmt.Sprint(Numbers{Highest: highest, Gaps: gaps}); got != want {
		t.Errorf("%s: %v: got %s, want %s", when, p, got, want)
	}
}

// One name is as many producers as there are sources and identities that say it, before
// and after a restart and a kill.
func TestAProducerIsOfASourceAndAnIdentity(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	all := []Producer{
		{Source: "webhook", Identity: "uid:1", Name: "p"}, {Source: "webhook", Identity: "uid:2", Name: "p"}, {Source: "remote", Identity: "uid:1", Name: "p"}, {Source: "webhook", Identity: "", Name: "p"},
	}
	for i, p := range all {
		store(t, q, said(p, 1, uint64(10*i+5)))
	}
	store(t, q, said(Producer{Source: "webhook", Identity: "uid:3", Name: "p"}, 1000, 1000))
	for _, when := range []string{"at once", "after a restart", "after a kill"} {
		for i, p := range all {
			expectNumbers(t, q, when, p, uint64(10*i+5))
		}
		expectNumbers(t, q, when, Producer{Source: "webhook", Identity: "uid:3", Name: "p"}, 1000, Gap{From: 1, To: 999})
		expectNumbers(t, q, when, Producer{Source: "remote", Identity: "uid:2", Name: "p"}, 0)
		if when == "at once" {
			closeQueue(t, q)
		} else {
			killed(t, q)
		}
		q = open(t, opts)
	}
}

// Gaps are what a producer has not sent, until it does.
func TestGapsAreKeptAndFilled(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	p := Producer{Source: "webhook", Identity: "uid:1", Name: "p"}
	for _, step := range []struct {
		from, to, highest uint64
		gaps              []Gap
	}{
		{1, 5, 5, nil},
		{20, 25, 25, []Gap{{From: 6, To: 19}}},
		{10, 12, 25, []Gap{{From: 6, To: 9}, {From: 13, To: 19}}},
		{6, 9, 25, []Gap{{From: 13, To: 19}}},
		{24, 40, 40, []Gap{{From: 13, To: 19}}},
		{13, 19, 40, nil},
	} {
		store(t, q, said(p, step.from, step.to))
		expectNumbers(t, q, "at once", p, step.highest, step.gaps...)
		killed(t, q)
		q = open(t, opts)
		expectNumbers(t, q, "after a kill", p, step.highest, step.gaps...)
	}
}

// Names of docket's own sources number without gaps: damage alone takes lines away, and
// their sources go on where they are told.
func TestOwnNamesHaveNoGaps(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir()})
	p := Producer{Source: "gatekeeper", Name: "gatekeeper/run"}
	store(t, q, said(p, 7, 9))
	expectNumbers(t, q, "at once", p, 9)
}

func peer(n int) state.Owner { return state.Owner{Source: "tcp", Identity: fmt.Sprint("cert:", n)} }

// say has a peer say the names from to to, one after another.
func say(s *state.Producers, o state.Owner, from, to int, at time.Time) {
	for n := from; n < to; n++ {
		f := segment.Frame{
			Version: segment.FrameVersion, Source: []byte(o.Source), Identity: []byte(o.Identity),
			Producer: fmt.Append(nil, "producer-", n), Position: 1, Duplicates: 1, Received: at.Add(time.Duration(n)).UnixNano(),
		}
		s.Add(&f)
	}
}

func knows(t *state.Producers, o state.Owner, n int) bool {
	_, known := t.Find(Producer{Source: o.Source, Identity: o.Identity, Name: fmt.Sprint("producer-", n)})
	return known
}

// However many names an identity says, it pushes out its own alone, those it has not
// said for longest first. docket's own names stay whatever happens.
func TestProducersAreEvictedWithinTheirIdentity(t *testing.T) {
	now := time.Now()
	s := state.NewProducers(100)
	own, good, greedy := state.Owner{Source: "gatekeeper"}, peer(1), peer(2)
	say(s, own, 0, 5000, now.Add(-time.Hour))
	say(s, good, 0, 100, now.Add(-time.Hour))
	say(s, greedy, 0, 70000, now)
	say(s, greedy, 69900, 69901, now) // said again: the last but one to go
	say(s, greedy, 70000, 70001, now)
	for n := range 5000 {
		if !knows(s, own, n) {
			t.Fatalf("docket's own name %d is forgotten", n)
		}
	}
	for n := range 100 {
		if !knows(s, good, n) {
			t.Fatalf("name %d of another identity is forgotten", n)
		}
	}
	for n := 69890; n <= 70000; n++ {
		if got, want := knows(s, greedy, n), n == 69900 || n > 69901; got != want {
			t.Errorf("name %d of the greedy identity: got known %t, want %t", n, got, want)
		}
	}
	if got := len(s.ByOwner[greedy].ByName); got != 100 {
		t.Errorf("got %d names of the greedy identity, want 100", got)
	}
}

// All peers together have a bound. Beyond it the identity with the most names gives way,
// and never one that has no more than its share.
func TestProducersOfAllPeersAreBounded(t *testing.T) {
	now := time.Now()
	s := state.NewProducers(0)
	good := peer(0)
	const share = 300
	say(s, good, 0, share, now.Add(-time.Hour))
	for n := 1; n <= 20; n++ {
		say(s, peer(n), 0, DefaultProducers, now)
		if s.Peers > state.MaxProducers {
			t.Fatalf("got %d names of peers, want at most %d", s.Peers, state.MaxProducers)
		}
	}
	for n := range share {
		if !knows(s, good, n) {
			t.Fatalf("name %d of the identity with %d is forgotten", n, share)
		}
	}
	for n := 1; n <= 20; n++ {
		if !knows(s, peer(n), DefaultProducers-1) {
			t.Errorf("the newest name of identity %d is forgotten", n)
		}
	}
	counted := 0
	for key, names := range s.ByOwner {
		if !key.IsOwn() {
			counted += len(names.ByName)
		}
	}
	if counted != s.Peers {
		t.Errorf("got %d names counted, want %d", s.Peers, counted)
	}
}

// A name in use is never forgotten: not by age, and not for others.
func TestHeldProducersStay(t *testing.T) {
	now := time.Now()
	s := state.NewProducers(10)
	greedy := peer(1)
	held := Producer{Source: greedy.Source, Identity: greedy.Identity, Name: "producer-0"}
	first := Producer{Source: greedy.Source, Identity: greedy.Identity, Name: "producer-1"}
	say(s, greedy, 0, 1, now)
	s.Hold(held)
	s.Hold(first) // before its first line
	say(s, greedy, 1, 100, now)
	s.Forget(now.Add(48 * time.Hour))
	if !knows(s, greedy, 0) || !knows(s, greedy, 1) || len(s.ByOwner[greedy].ByName) != 2 {
		t.Errorf("got %v, want the two that are held", s.ByOwner[greedy].ByName)
	}
	if got := len(s.Stored(now)); got != 2 {
		t.Errorf("a checkpoint has %d, want 2", got)
	}
	s.Release(held, now.Add(48*time.Hour))
	s.Release(first, now.Add(48*time.Hour))
	s.Forget(now.Add(71 * time.Hour))
	if !knows(s, greedy, 0) {
		t.Error("forgotten a day before its time")
	}
	s.Forget(now.Add(73 * time.Hour))
	if len(s.ByOwner) != 0 || s.Peers != 0 {
		t.Errorf("got %d names, want none after a day", s.Peers)
	}
}

// What was never said by a hello that sent nothing leaves nothing.
func TestAHelloAloneIsNotRemembered(t *testing.T) {
	s := state.NewProducers(10)
	for n := range 1000 {
		p := Producer{Source: "webhook", Identity: "uid:1", Name: fmt.Sprint(n)}
		s.Hold(p)
		s.Release(p, time.Now())
	}
	if len(s.ByOwner) != 0 || len(s.Held) != 0 || s.Peers != 0 {
		t.Errorf("got %d tables and %d held, want none", len(s.ByOwner), len(s.Held))
	}
}

// PositionsBytes is more than the table takes at its worst, with a checkpoint of it that
// is being written and the one before.
func TestPositionsBytes(t *testing.T) {
	now := time.Now()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := state.NewProducers(0)
	for n := range state.MaxProducers {
		o := peer(n / DefaultProducers)
		name := fmt.Append(nil, strings.Repeat("n", 120), n+10000000)
		for gap := range uint64(MaxGaps) {
			s.Add(&segment.Frame{
				Version: segment.FrameVersion, Source: []byte(o.Source), Identity: []byte(o.Identity),
				Producer: name, Position: 1<<40 + 2*gap, Duplicates: 1, Received: now.UnixNano(),
			})
		}
	}
	checkpoints := [][]state.StoredProducer{s.Stored(now), s.Stored(now)}
	runtime.GC()
	runtime.ReadMemStats(&after)
	took := int64(after.HeapAlloc - before.HeapAlloc)
	t.Logf("%d producers take %d bytes, %d each", state.MaxProducers, took, took/state.MaxProducers)
	if s.Peers != state.MaxProducers || len(checkpoints[1]) != state.MaxProducers || took > PositionsBytes(0) {
		t.Errorf("got %d bytes for %d producers, want at most %d for %d", took, s.Peers, PositionsBytes(0), state.MaxProducers)
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(checkpoints)
}

// A position is kept for a day after the producer's last line, through kills and
// power cuts, and forgotten then.
func TestPositionsAreKeptForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashdisk.New(rand.New(rand.NewPCG(1, 1)))
		var q *Queue
		start := func() {
			t.Helper()
			disk.Boot(-1, func() {})
			var err error
			q, err = Open(Options{Directory: "/q", SegmentBytes: 1, FS: disk.Process()})
			must(t, err)
		}
		crash := func() {
			t.Helper()
			disk.Kill()
			_ = q.Close(context.Background()) // it is dead
			disk.PowerCut()
			start()
		}
		start()
		store(t, q, counted("once", 1))
		store(t, q, counted("twice", 1))
		crash()
		time.Sleep(23 * time.Hour)
		store(t, q, counted("twice", 2))
		crash()
		expectKnown(t, q, "after 23 hours", map[string]uint64{"once": 1, "twice": 2, "new": 0})
		time.Sleep(2 * time.Hour)
		store(t, q, counted("new", 1))
		store(t, q, counted("new", 2)) // the segment before is closed, and so a checkpoint made
		time.Sleep(time.Second)        // and durable
		crash()
		expectKnown(t, q, "after 25 hours", map[string]uint64{"once": 0, "twice": 2, "new": 2})
		must(t, q.Close(context.Background()))
	})
}

// A name in use is remembered after a kill too, although the log does not say that it was
// in use, and although many others came since its last line: one commit of them, or many.
func TestNamesInUseOutliveAKill(t *testing.T) {
	for name, others := range map[string]int{"some": 30, "many": 5 * state.Returning} {
		t.Run(name, func(t *testing.T) {
			opts := Options{Directory: t.TempDir(), Producers: 10}
			q := open(t, opts)
			quiet := Producer{Source: "unix", Identity: "uid:1", Name: "quiet"}
			q.Hold(quiet)
			store(t, q, said(quiet, 1, 50))
			store(t, q, said(quiet, 60, 70))
			for n := range others {
				c := said(Producer{Source: "unix", Identity: "uid:1", Name: fmt.Sprint("n", n)}, 1, 1)
				if n%100 == 99 {
					store(t, q, c)
				} else {
					must(t, q.Append(t.Context(), c, nil))
				}
			}
			store(t, q, said(Producer{Source: "unix", Identity: "uid:1", Name: "last"}, 1, 1))
			for _, when := range []string{"at once", "after a kill", "after another"} {
				expectNumbers(t, q, when, quiet, 70, Gap{From: 51, To: 59})
				q.mu.Lock()
				if got := q.state.Producers.Peers; got > opts.Producers+state.Returning {
					t.Errorf("%s: got %d names, want at most %d", when, got, opts.Producers+state.Returning)
				}
				q.mu.Unlock()
				killed(t, q)
				q = open(t, opts)
			}
		})
	}
}

// Once producers have had the time to come back, the bounds hold again.
func TestBoundsHoldAfterTheReturn(t *testing.T) {
	now := time.Now()
	s := state.NewProducers(10)
	s.Fold()
	say(s, peer(1), 0, 3*state.Returning, now)
	if s.Peers != 10+state.Returning {
		t.Errorf("while the log is read: got %d names, want %d", s.Peers, 10+state.Returning)
	}
	s.Resume(now.UnixNano(), now)
	say(s, peer(1), 10000, 10001, now.Add(state.ReturnTime+time.Second))
	if s.Peers != 10 {
		t.Errorf("after the return: got %d names, want 10", s.Peers)
	}
}

// A limit that is lower than at the last run holds for what was kept then.
func TestALowerLimitHolds(t *testing.T) {
	now := time.Now()
	s := state.NewProducers(65536)
	say(s, peer(1), 0, 60000, now)
	kept := s.Stored(now)
	s = state.NewProducers(100)
	s.Restore(kept, nil)
	if s.Peers != 100 || !knows(s, peer(1), 59999) {
		t.Errorf("got %d names, want the newest 100", s.Peers)
	}
}

// Among tables of one size that gives way into which a name comes.
func TestTheComersTableGivesWay(t *testing.T) {
	now := time.Now()
	s := state.NewProducers(state.MaxProducers)
	good, greedy := peer(1), peer(2)
	say(s, good, 0, state.MaxProducers/2, now.Add(-time.Hour))
	say(s, peer(3), 0, 1, now) // without it the two would never be of one size
	say(s, greedy, 0, 3*state.MaxProducers, now)
	for n := range state.MaxProducers / 2 {
		if !knows(s, good, n) {
			t.Fatalf("name %d of the other identity is forgotten", n)
		}
	}
}

// Idle time in which docket did not run is left out once, however often it starts.
func TestTimeStandsStillOnce(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	c := said(Producer{Source: "unix", Identity: "uid:1", Name: "p"}, 1, 5)
	c.Received = time.Now().Add(-time.Hour)
	store(t, q, c)
	for range 10 {
		closeQueue(t, q)
		q = open(t, opts)
	}
	at := q.state.Producers.At(Producer{Source: "unix", Identity: "uid:1", Name: "p"})
	if ahead := time.Until(time.Unix(0, at.Seen)); ahead > time.Minute {
		t.Errorf("last heard of %v from now", ahead)
	}
}

// What an earlier docket has kept of a name is for producers of the source that brought
// it, as far as is known, and names of a source are for that source.
func TestEarlierPositionsAreForTheirSource(t *testing.T) {
	s := state.NewProducers(0)
	old := func(source, name string, number uint64) {
		s.Add(&segment.Frame{Version: segment.LegacyFrameVersion, Source: []byte(source), Producer: []byte(name), Position: number, Duplicates: 1})
	}
	old("tcp", "pod", 7)
	old("tail", "tail/file", 8)
	s.Legacy["pod"] = state.LegacyPosition{Number: 5}
	s.Legacy["gatekeeper/run"] = state.LegacyPosition{Number: 6}
	for p, want := range map[Producer]uint64{
		{Source: "tcp", Identity: "cert:a", Name: "pod"}:                7,
		{Source: "tcp", Identity: "cert:b", Name: "pod"}:                7,
		{Source: "unix", Identity: "uid:1", Name: "pod"}:                5,
		{Source: "gatekeeper", Identity: "", Name: "pod"}:               0,
		{Source: "gatekeeper", Identity: "", Name: "gatekeeper/run"}:    6,
		{Source: "gatekeeper", Identity: "any", Name: "gatekeeper/run"}: 0,
		{Source: "tail", Identity: "", Name: "gatekeeper/run"}:          0,
		{Source: "tail", Identity: "", Name: "tail/file"}:               8,
		{Source: "unix", Identity: "uid:1", Name: "tail/file"}:          0,
	} {
		if n, known := s.Find(p); n.Highest != want || known != (want > 0) {
			t.Errorf("%+v: got %d, known %t, want %d", p, n.Highest, known, want)
		}
	}
}

// What a producer goes on from while docket runs it goes on from when the log is read,
// however long docket did not run.
func TestEarlierPositionsAreReplayed(t *testing.T) {
	now := time.Now()
	for _, when := range []string{"live", "replay"} {
		s := state.NewProducers(0)
		s.Legacy["p"] = state.LegacyPosition{Number: 500, Seen: now.Add(-72 * time.Hour).UnixNano()}
		if when == "live" {
			s.Resume(now.Add(-72*time.Hour).UnixNano(), now)
		}
		s.Add(&segment.Frame{
			Version: segment.FrameVersion, Source: []byte("tcp"), Identity: []byte("any"), Producer: []byte("p"),
			Position: 501, Duplicates: 1, Received: now.UnixNano(),
		})
		if n, _ := s.Find(Producer{Source: "tcp", Identity: "any", Name: "p"}); n.Highest != 501 || len(n.Gaps) > 0 {
			t.Errorf("%s: got %v, want 501 without a gap", when, n)
		}
	}
}

// The first position of an earlier docket whose source is not known is warned of.
func TestEarlierPositionIsWarnedOf(t *testing.T) {
	var logged bytes.Buffer
	opts := Options{Directory: t.TempDir(), Log: slog.New(slog.NewTextHandler(&logged, nil))}
	q := open(t, opts)
	q.state.Producers.Legacy["p"] = state.LegacyPosition{Number: 5, Seen: time.Now().UnixNano()}
	for _, identity := range []string{"uid:1", "uid:2"} {
		expectNumbers(t, q, identity, Producer{Source: "unix", Identity: identity, Name: "p"}, 5)
	}
	closeQueue(t, q)
	if got := strings.Count(logged.String(), "without its source"); got != 1 {
		t.Errorf("got %d warnings, want 1: %s", got, &logged)
	}
}

// A chunk without a line moves a name of docket's own sources, and makes no peer known.
func TestAChunkWithoutALine(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	own, unknown := Producer{Source: "tail", Name: "tail/file"}, Producer{Source: "unix", Identity: "uid:1", Name: "p"}
	for _, p := range []Producer{own, unknown} {
		store(t, q, &Chunk{Source: p.Source, Identity: p.Identity, Producer: p.Name, Position: 1, Received: time.Now()})
	}
	for _, when := range []string{"at once", "after a kill"} {
		expectNumbers(t, q, when, own, 1)
		if _, known, err := q.Position(t.Context(), unknown); known || err != nil {
			t.Errorf("%s: the peer is known: %t, %v", when, known, err)
		}
		killed(t, q)
		q = open(t, opts)
	}
}
