package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/docket-export/docket/decision/stream"
)

// fullClient has no room, and nobody to send to.
func fullClient(t *testing.T) *link {
	t.Helper()
	c := startClient(t, Config{Address: "unix://" + t.TempDir() + "/nobody"})
	c.link.box.limit = 0
	return c.link
}

// makeRoom lets in lines that wait.
func (k *link) makeRoom(bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.box.limit += bytes
	k.admit()
}

// lastMoment is a context that is done as room is made.
type lastMoment struct {
	context.Context
	makeRoom func()
}

func (c lastMoment) Done() <-chan struct{} {
	c.makeRoom()
	return c.Context.Done()
}

// A line that is let in at the moment in which its time is over is taken: to say
// otherwise would have it sent twice. Which of the two is seen first is left to chance.
func TestLetInAtTheLastMoment(t *testing.T) {
	k := fullClient(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		l := &line{text: make([]byte, 0, 100)}
		if err := k.take(lastMoment{over, func() { k.makeRoom(l.size()) }}, l); err != nil {
			t.Fatalf("got %v for a line that was let in, want nil", err)
		}
	}
}

// A line that waits for much room holds up those behind it, until it gives up.
func TestWaiterThatGivesUpLetsTheNextIn(t *testing.T) {
	k := fullClient(t)
	waits := func(n int) {
		for {
			k.mu.Lock()
			got := k.waiters.len()
			k.mu.Unlock()
			if got == n {
				return
			}
			runtime.Gosched()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	large, small := make(chan error, 1), make(chan error, 1)
	go func() { large <- k.take(ctx, &line{text: make([]byte, 0, 1000)}) }()
	waits(1)
	go func() { small <- k.take(within(t), &line{text: make([]byte, 0, 100)}) }()
	waits(2)
	k.makeRoom(500) // for the second alone
	select {
	case err := <-small:
		t.Fatalf("the second was let in before the first: %v", err)
	default:
	}
	cancel()
	if err := <-large; !errors.Is(err, ErrFull) {
		t.Errorf("the large one: got %v, want %v", err, ErrFull)
	}
	k.mu.Lock()
	left := k.waiters.len()
	k.mu.Unlock()
	if left > 0 {
		t.Fatal("the small one behind it waits still")
	}
	if err := <-small; err != nil {
		t.Errorf("the small one behind it: got %v, want nil", err)
	}
}

// A refusal on a connection that is dead says nothing of the line when it is sent again.
func TestRefusalOfADeadConnection(t *testing.T) {
	var mu sync.Mutex
	var acked []uint64
	var connections atomic.Int64
	first, goOn := make(chan struct{}), make(chan struct{})
	s := scripted(t, SenderConfig{Acked: func(n uint64) {
		mu.Lock()
		defer mu.Unlock()
		if acked = append(acked, n); len(acked) == 1 {
			close(first)
		}
	}}, func(nc net.Conn, in *bufio.Reader) {
		for range 2 {
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
		}
		if connections.Add(1) == 1 {
			_, _ = nc.Write(stream.Refused{Seq: 2, Reason: "TooLarge"}.Append(nil))
			return
		}
		_, _ = nc.Write(stream.Ack{Through: 1}.Append(nil))
		<-goOn
		_, _ = nc.Write(stream.Ack{Through: 2}.Append(nil))
		_, _ = io.Copy(io.Discard, in)
	})
	send(t, s, 1, 2)
	<-first
	close(goOn)
	closeAll(t, s)
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(acked, []uint64{1, 2}) {
		t.Errorf("Acked: got %v, want line 1 and then line 2: it was not handled with the ack of the first", acked)
	}
}
