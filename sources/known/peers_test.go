package known

import (
	"fmt"
	"testing"
)

func idOf(peer string, n int) ID { return OfPeer(peer, fmt.Appendf(nil, "record %d", n)) }

// One peer cannot make docket take for known what another sends, whatever ids it chooses.
func TestPeersHaveIDsOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 0)
	for _, id := range []ID{id(1), idOf("cert:CN=a", 1), idOf("cert:CN=b", 1)} {
		if _, isNew := l.Add(id); !isNew {
			t.Error("got another's record for known")
		}
	}
	if number, isNew := l.Add(idOf("cert:CN=a", 1)); isNew || number != 2 {
		t.Errorf("got the number %d, new %t, for a record that came again, want 2", number, isNew)
	}
}

// The flood of one peer makes docket forget that peer's own records and nobody else's,
// before a restart and after it.
func TestFloodPushesOutItsOwn(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 0)
	const few = 100
	for n := range few {
		l.Add(idOf("cert:CN=modest", n))
		l.Add(id(n))
	}
	flood := func(l *Log, from int) {
		t.Helper()
		for n := range Window + 1000 {
			l.Add(idOf("cert:CN=greedy", from+n))
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		l.Settled(l.Next() - 1)
		if l.window.size != Window {
			t.Errorf("got %d records in memory, want %d", l.window.size, Window)
		}
		for n := range few {
			for _, id := range []ID{idOf("cert:CN=modest", n), id(n)} {
				if _, isNew := l.Add(id); isNew {
					t.Fatalf("record %d of a modest peer was pushed out", n)
				}
			}
		}
		if _, isNew := l.Add(idOf("cert:CN=greedy", from)); !isNew {
			t.Error("got the oldest of the flood for known")
		}
		l.Cut(l.Next() - 1)
	}
	flood(l, 0)
	acked := l.Next() - 1
	l.Close()
	flood(open(t, dir, acked), 1_000_000)
}

// A record that an earlier docket knew, which did not tell peers apart, is known.
func TestIDsOfAnEarlierDocket(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 0)
	add(t, l, 1)
	l.Close()
	l = open(t, dir, 1)
	if number, isNew := l.Add(idOf("cert:CN=a", 1), id(1)); isNew || number != 1 {
		t.Errorf("got the number %d, new %t, want it known as 1", number, isNew)
	}
}
