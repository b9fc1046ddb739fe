package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

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

func receivedOf(t *testing.T, q *Queue, p Producer) state.Numbers {
	t.Helper()
	n, _, err := q.Position(t.Context(), p)
	must(t, err)
	return n
}

func expectNumbers(t *testing.T, q *Queue, when string, p Producer, highest uint64, gaps ...state.Gap) {
	t.Helper()
	if got, want := fmt.Sprint(receivedOf(t, q, p)), fmt.Sprint(state.Numbers{Highest: highest, Gaps: gaps}); got != want {
		t.Errorf("%s: %v: got %s, want %s", when, p, got, want)
	}
}

// Gaps are what a producer has not sent, until it does.
func TestGapsAreKeptAndFilled(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	p := Producer{Source: "webhook", Identity: "uid:1", Name: "p"}
	for _, step := range []struct {
		from, to, highest uint64
		gaps              []state.Gap
	}{
		{1, 5, 5, nil},
		{20, 25, 25, []state.Gap{{From: 6, To: 19}}},
		{10, 12, 25, []state.Gap{{From: 6, To: 9}, {From: 13, To: 19}}},
		{6, 9, 25, []state.Gap{{From: 13, To: 19}}},
		{24, 40, 40, []state.Gap{{From: 13, To: 19}}},
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

// A position is kept for a day after the producer's last line, through kills and
// power cuts, and forgotten then.
func TestPositionsAreKeptForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashdisk.New(rand.New(rand.NewPCG(1, 1)))
		var q *Queue
		start := func() {
			t.Helper()
			disk.Boot()
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

// A docket was killed and rested for days. The producers of its log's last frames, which
// no later frame proves to be synced, are remembered as those in front of them are:
// their lines are known when they come again, after the next checkpoint too.
func TestTheEndOfTheLogOutlivesARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashdisk.New(rand.New(rand.NewPCG(1, 1)))
		start := func() *Queue {
			t.Helper()
			disk.Boot()
			q, err := Open(Options{Directory: "/q", SegmentBytes: 1, FS: disk.Process()})
			must(t, err)
			return q
		}
		kill := func(q *Queue) {
			disk.Kill()
			_ = q.Close(context.Background()) // it is dead
		}
		first, last := Producer{Source: "unix", Identity: "uid:1", Name: "first"}, Producer{Source: "unix", Identity: "uid:2", Name: "last"}
		q := start()
		store(t, q, said(first, 1, 3))
		store(t, q, said(last, 1, 5))
		kill(q)
		time.Sleep(72 * time.Hour)
		q = start()
		for _, when := range []string{"at once", "after another kill"} {
			store(t, q, counted("new", 1))
			store(t, q, counted("new", 2)) // the segment before is closed, and so a checkpoint made
			time.Sleep(time.Second)        // and durable
			expectNumbers(t, q, when, first, 3)
			expectNumbers(t, q, when, last, 5)
			kill(q)
			q = start()
		}
		must(t, q.Close(context.Background()))
	})
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
	at := q.state.Checkpoint(time.Now()).Producers[0]
	if ahead := time.Until(time.Unix(0, at.Seen)); ahead > time.Minute {
		t.Errorf("last heard of %v from now", ahead)
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
