package streamsource

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
)

// Connections of one identity never keep out another: the greediest one's idlest goes.
func TestSeatsAreShared(t *testing.T) {
	t.Parallel()
	left := make(map[string]bool)
	table := newSeats(4, false)
	take := func(identity, name string) (*seat, error) {
		s, err := table.claim(nil, identity, func() { left[name] = true })
		if err == nil {
			s.used.Store(int64(len(table.taken))) // in the order of their names
		}
		return s, err
	}
	mustTake := func(identity, name string) *seat {
		t.Helper()
		s, err := take(identity, name)
		if err != nil {
			t.Fatalf("%s: got %v, want a seat", name, err)
		}
		return s
	}
	first := mustTake("greedy", "g1")
	for i := 2; i <= 4; i++ {
		mustTake("greedy", fmt.Sprint("g", i))
	}
	first.used.Store(1000) // it works
	mustTake("modest", "m1")
	if len(left) != 1 || !left["g2"] {
		t.Errorf("left for the first: got %v, want g2, the idlest", left)
	}
	mustTake("modest", "m2")
	if len(left) != 2 || !left["g3"] {
		t.Errorf("left for the second: got %v, want g3 too", left)
	}
	for _, identity := range []string{"modest", "greedy"} {
		if _, err := take(identity, "more"); err == nil {
			t.Errorf("%s: got a seat of a fair half, want none", identity)
		}
	}
	if _, err := take("third", "t1"); err == nil && len(left) != 3 {
		t.Errorf("a third: left %v, want one of those who have two", left)
	}
	table.release(first)
	if n := table.len(); n != 6 { // three have lost their seat and are not closed yet
		t.Errorf("connections: got %d, want 6", n)
	}
}

// A crowd of half handshakes does not keep out a peer that does its part, though it comes
// from the same address.
func TestHandshakesAreBounded(t *testing.T) {
	t.Parallel()
	s := startTLS(t, true)
	closed := make(chan error, 3*maxHandshakes)
	for range 3 * maxHandshakes {
		nc, err := net.Dial("tcp", s.at.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		go func() {
			_, err := io.Copy(io.Discard, nc)
			closed <- err
		}()
	}
	// Everyone is turned away while maxLeaving connections are still being closed.
	for range 2 * maxHandshakes {
		<-closed
	}
	s.dial().hello("p", 1, 0)
	if n := s.source.Connections(); n > 2*maxHandshakes+1 {
		t.Errorf("connections: got %d, want at most %d", n, 2*maxHandshakes+1)
	}
}

// A line that holds memory has its time. In plain mode the beginning of it is refused, so
// that it can be found; in acknowledged mode it comes again.
func TestSlowLine(t *testing.T) {
	t.Parallel()
	for name, numbered := range map[string]bool{"plain": false, "acknowledged": true} {
		t.Run(name, func(t *testing.T) {
			r := start(t, testLimit)
			p := r.dial()
			if numbered {
				p.hello("p", 1, 0)
			}
			p.send("{}\n{\"a\":\"" + strings.Repeat("x", 10000))
			r.await("the whole line", func() bool { return len(r.Lines()) == 1 })
			memory := r.source.server.Load().memory
			await.Until(t, "the end of the connection", func() bool {
				memory.Expire() // again: the line may have moved to another buffer meanwhile
				return r.source.Connections() == 0
			})
			if numbered {
				p.expect(`{"ack":1}`)
			}
			p.expectClosing("a long line took too long")
			want := 2
			if numbered {
				want = 1
			}
			r.await("what is kept", func() bool { return len(r.Lines()) == want })
			if n := memory.InUse(); n != 0 {
				t.Errorf("memory in use: got %d, want none", n)
			}
		})
	}
}
