package httpsource

import (
	"fmt"
	"testing"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/identity"
	"github.com/docket-export/docket/sources/sourcetest"
)

// The flood of one peer makes docket forget that peer's own events and nobody else's, before a
// restart and after it. What is not durable yet is not forgotten.
func TestFloodPushesOutItsOwn(t *testing.T) {
	const few = 100
	greedy, modest, anyone := peerKeyOf("cert:CN=greedy"), peerKeyOf("cert:CN=modest"), peerKeyOf(identity.Anyone)
	one := func(peer peerKey, n int) id { return idOf(peer, fmt.Appendf(nil, "event %d", n)) }
	var k ids
	for n := range few {
		k.add(one(modest, n), uint64(n))
		k.add(one(anyone, n), uint64(n))
	}
	const flood = maxIDs + 1000
	for n := range flood {
		k.add(one(greedy, n), uint64(n))
	}
	k.trim(func(peerKey) uint64 { return few })
	if got := k.size; got != flood+2*few-few-1 {
		t.Errorf("got %d events known, want that those on their way are", got)
	}
	k.trim(func(peerKey) uint64 { return flood })
	if k.size != maxIDs || len(k.numbers) != maxIDs {
		t.Errorf("got %d events known, want %d", k.size, maxIDs)
	}
	for n := range few {
		for _, i := range []id{one(modest, n), one(anyone, n)} {
			if _, isKnown := k.numbers[i]; !isKnown {
				t.Fatalf("event %d of a modest peer was pushed out", n)
			}
		}
	}
	if _, isKnown := k.numbers[one(greedy, 0)]; isKnown {
		t.Error("got the oldest of the flood for known")
	}
}

// What is learned at the start is learned of each peer, and of this source alone.
func TestLearn(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	c := newCommitter(in, sources.Env{Name: "test", Stored: in.Stored}, testProtocol, nil)
	a, b := peerKeyOf("cert:CN=a"), peerKeyOf("cert:CN=b")
	in.Restore([]sourcetest.Line{
		{Producer: c.producer(a), Number: 1, Text: `{"id":"x"}`},
		{Producer: c.producer(peerKeyOf(identity.Anyone)), Number: 1, Text: `{"id":"y"}`},
		{Producer: "test/conflict", Number: 1, Text: `{"id":"z"}`},
		{Producer: "test/events/none", Number: 1, Text: `{"id":"z"}`},
	})
	if err := c.learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, want := range map[id]bool{idOf(a, []byte("x")): true, idOf(b, []byte("x")): false, idOf(peerKey{}, []byte("y")): true, idOf(a, []byte("y")): false} {
		if _, isKnown := c.ids.numbers[i]; isKnown != want {
			t.Errorf("%x: got known: %v, want %v", i, isKnown, want)
		}
	}
	if c.ids.size != 2 {
		t.Errorf("got %d events known, want 2", c.ids.size)
	}
}
