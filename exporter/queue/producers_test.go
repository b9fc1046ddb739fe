package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
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
		got, known, err := q.Position(t.Context(), producer)
		if got != number || known != (number > 0) || err != nil {
			t.Errorf("%s: producer %s: got %d, known %t, %v, want %d", when, producer, got, known, err, number)
		}
	}
}

// However many producers come, what is kept of them is bounded at every moment,
// and those that were seen last stay.
func TestProducersAreBounded(t *testing.T) {
	const all = 2*maxProducers + maxProducers/2
	start := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	id := func(n int) string { return fmt.Sprint("producer-", n) }
	s := newState()
	most := 0
	for n := range all {
		s.add(&frame{producer: []byte(id(n)), position: 1, received: start.Add(time.Duration(n) * time.Millisecond).UnixNano()}, 0)
		most = max(most, len(s.Producers))
	}
	if most > 2*maxProducers {
		t.Errorf("got %d producers at once, want at most %d", most, 2*maxProducers)
	}
	s.forgetProducers(start.Add(time.Hour))
	if got := len(s.Producers); got != maxProducers {
		t.Errorf("got %d producers, want %d", got, maxProducers)
	}
	for n := range all {
		if got, want := s.Producers[id(n)] != nil, n >= all-maxProducers; got != want {
			t.Fatalf("producer %d of %d: got known %t, want %t", n, all, got, want)
		}
	}
}

// What a queue keeps of its producers on disk is bounded too: the one unseen
// longest goes first, and a kill brings none of them back.
func TestProducersStayBoundedThroughAKill(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	store(t, q, counted("seen", 7))
	closeQueue(t, q)
	c, ok, err := readCheckpoint(osFS{}, opts.Directory)
	if err != nil || !ok {
		t.Fatalf("checkpoint: got %v, %v", ok, err)
	}
	now := time.Now()
	for n := range maxProducers { // the first is the oldest, but not a day old
		c.Producers[fmt.Sprint("old-", n)] = &position{Number: 9, Seen: now.Add(time.Duration(n-maxProducers) * time.Second).UnixNano()}
	}
	must(t, writeCheckpoint(osFS{}, opts.Directory, c))

	q = open(t, opts)
	store(t, q, counted("new", 3))
	store(t, q, counted("old-0", 10)) // back after a long time: seen just now
	killed(t, q)
	q = open(t, opts)
	expectKnown(t, q, "after a kill", map[string]uint64{
		"seen": 7, "new": 3, "old-0": 10, "old-3": 9, fmt.Sprint("old-", maxProducers-1): 9,
	})
	closeQueue(t, q)
	c, ok, err = readCheckpoint(osFS{}, opts.Directory)
	if err != nil || !ok || len(c.Producers) != maxProducers || c.Producers["old-1"] != nil || c.Producers["old-2"] != nil {
		t.Errorf("checkpoint: got %v, %v, %d producers, want %d, without those unseen longest", ok, err, len(c.Producers), maxProducers)
	}
}

// A position is kept for a day after the producer's last line, through kills and
// power cuts, and forgotten then.
func TestPositionsAreKeptForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newCrashDisk(rand.New(rand.NewPCG(1, 1)))
		var q *Queue
		start := func() {
			t.Helper()
			disk.boot(-1, func() {})
			var err error
			q, err = Open(Options{Directory: "/q", SegmentBytes: 1, FS: disk.process()})
			must(t, err)
		}
		crash := func() {
			t.Helper()
			disk.kill()
			_ = q.Close(context.Background()) // it is dead
			disk.powerCut()
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
