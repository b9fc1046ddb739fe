package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
)

func peer(n int) owner { return owner{Source: "tcp", Identity: fmt.Sprint("cert:", n)} }

// say has a peer say the names from to to, one after another.
func say(s *producers, o owner, from, to int, at time.Time) {
	for n := from; n < to; n++ {
		f := segment.Frame{
			Source: []byte(o.Source), Identity: []byte(o.Identity),
			Producer: fmt.Append(nil, "producer-", n), Position: 1, Duplicates: 1, Received: at.Add(time.Duration(n)).UnixNano(),
		}
		s.add(&f)
	}
}

func knows(t *producers, o owner, n int) bool {
	_, known := t.Find(Producer{Source: o.Source, Identity: o.Identity, Name: fmt.Sprint("producer-", n)})
	return known
}

// However many names an identity says, it pushes out its own alone, those it has not
// said for longest first. docket's own names stay whatever happens.
func TestProducersAreEvictedWithinTheirIdentity(t *testing.T) {
	now := time.Now()
	s := newProducers(100)
	own, good, greedy := owner{Source: "gatekeeper"}, peer(1), peer(2)
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
	if got := len(s.byOwner[greedy].ByName); got != 100 {
		t.Errorf("got %d names of the greedy identity, want 100", got)
	}
}

// All peers together have a bound. Beyond it the identity with the most names gives way,
// and never one that has no more than its share.
func TestProducersOfAllPeersAreBounded(t *testing.T) {
	now := time.Now()
	s := newProducers(0)
	good := peer(0)
	const share = 300
	say(s, good, 0, share, now.Add(-time.Hour))
	for n := 1; n <= 20; n++ {
		say(s, peer(n), 0, DefaultProducers, now)
		if s.Peers > maxProducers {
			t.Fatalf("got %d names of peers, want at most %d", s.Peers, maxProducers)
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
	for key, names := range s.byOwner {
		if !key.isOwn() {
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
	s := newProducers(10)
	greedy := peer(1)
	held := Producer{Source: greedy.Source, Identity: greedy.Identity, Name: "producer-0"}
	first := Producer{Source: greedy.Source, Identity: greedy.Identity, Name: "producer-1"}
	say(s, greedy, 0, 1, now)
	s.Hold(held)
	s.Hold(first) // before its first line
	say(s, greedy, 1, 100, now)
	s.forget(now.Add(48 * time.Hour))
	if !knows(s, greedy, 0) || !knows(s, greedy, 1) || len(s.byOwner[greedy].ByName) != 2 {
		t.Errorf("got %v, want the two that are held", s.byOwner[greedy].ByName)
	}
	if got := len(s.stored(now)); got != 2 {
		t.Errorf("a checkpoint has %d, want 2", got)
	}
	s.Release(held, now.Add(48*time.Hour))
	s.Release(first, now.Add(48*time.Hour))
	s.forget(now.Add(71 * time.Hour))
	if !knows(s, greedy, 0) {
		t.Error("forgotten a day before its time")
	}
	s.forget(now.Add(73 * time.Hour))
	if len(s.byOwner) != 0 || s.Peers != 0 {
		t.Errorf("got %d names, want none after a day", s.Peers)
	}
}

// What was never said by a hello that sent nothing leaves nothing.
func TestAHelloAloneIsNotRemembered(t *testing.T) {
	s := newProducers(10)
	for n := range 1000 {
		p := Producer{Source: "webhook", Identity: "uid:1", Name: fmt.Sprint(n)}
		s.Hold(p)
		s.Release(p, time.Now())
	}
	if len(s.byOwner) != 0 || len(s.held) != 0 || s.Peers != 0 {
		t.Errorf("got %d tables and %d held, want none", len(s.byOwner), len(s.held))
	}
}

// A limit that is lower than at the last run holds for what was kept then.
func TestALowerLimitHolds(t *testing.T) {
	now := time.Now()
	s := newProducers(65536)
	say(s, peer(1), 0, 60000, now)
	kept := s.stored(now)
	s = newProducers(100)
	s.restore(kept)
	if s.Peers != 100 || !knows(s, peer(1), 59999) {
		t.Errorf("got %d names, want the newest 100", s.Peers)
	}
}

// Among tables of one size that gives way into which a name comes.
func TestTheComersTableGivesWay(t *testing.T) {
	now := time.Now()
	s := newProducers(maxProducers)
	good, greedy := peer(1), peer(2)
	say(s, good, 0, maxProducers/2, now.Add(-time.Hour))
	say(s, peer(3), 0, 1, now) // without it the two would never be of one size
	say(s, greedy, 0, 3*maxProducers, now)
	for n := range maxProducers / 2 {
		if !knows(s, good, n) {
			t.Fatalf("name %d of the other identity is forgotten", n)
		}
	}
}

// The end of the log is added when the log has been read. Who stands in it alone is
// remembered as all others are, however long docket did not run.
func TestEndOfTheLogIsRemembered(t *testing.T) {
	now := time.Now()
	stopped := now.Add(-72 * time.Hour)
	s := newProducers(0)
	s.Resume(stopped.UnixNano(), now)
	say(s, peer(1), 0, 1, stopped)
	s.forget(now)
	if !knows(s, peer(1), 0) {
		t.Error("a producer is forgotten")
	}
}
