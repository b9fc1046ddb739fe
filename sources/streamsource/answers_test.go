package streamsource

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/docket-export/docket/decision/stream"
	"github.com/docket-export/docket/sources"
)

// socketPair returns the two ends of a connection over a Unix socket.
func socketPair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	return pairAt(t, "unix", filepath.Join(t.TempDir(), "s"))
}

// pairAt returns the two ends of a connection over a socket at an address.
func pairAt(t *testing.T, network, address string) (ours, theirs net.Conn) {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if theirs, err = net.Dial(network, ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	if ours, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	return ours, theirs
}

// isWriting reports whether a has a goroutine at work.
func (a *answers) isWriting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writing
}

// A producer that reads has its ack when receive returns, without a goroutine.
func TestLoneAckIsWrittenAtOnce(t *testing.T) {
	t.Parallel()
	ours, theirs := socketPair(t)
	a := newAnswers(ours, 1)
	replies := bufio.NewReader(theirs)
	for n := uint64(1); n <= 100; n++ {
		a.receive(sources.Receipt{Through: n, Lines: 1, Alone: true})
		if a.isWriting() {
			t.Fatalf("ack %d: a goroutine is at work, want it written already", n)
		}
		if got := readLine(t, replies); got != string(stream.Ack{Through: n}.Append(nil)) {
			t.Fatalf("ack %d: got %q", n, got)
		}
	}
	a.finish(nil)
}

// One that does not read holds up nobody: receive returns, and the last ack arrives
// whole once the producer reads. Over TCP the kernel takes a part of an ack, most of the time.
func TestLoneAckDoesNotWait(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		network, address := "tcp", "127.0.0.1:0"
		if i == 0 {
			network, address = "unix", filepath.Join(t.TempDir(), "s")
		}
		t.Run(fmt.Sprint(network, i), func(t *testing.T) {
			ours, theirs := pairAt(t, network, address)
			if c, ok := ours.(*net.TCPConn); ok {
				_ = c.SetWriteBuffer(16 << 10) // to be full soon
			}
			a := newAnswers(ours, 1)
			n := uint64(0)
			for !a.isWriting() { // until the kernel has no room for another ack
				n++
				a.receive(sources.Receipt{Through: n, Lines: 1, Alone: true})
			}
			for range 100 {
				n++
				a.receive(sources.Receipt{Through: n, Lines: 1, Alone: true})
			}
			replies := bufio.NewReader(theirs)
			last := uint64(0)
			for last < n {
				reply, err := stream.ParseReply([]byte(readLine(t, replies)))
				ack, ok := reply.(stream.Ack)
				if err != nil || !ok || ack.Through <= last {
					t.Fatalf("after ack %d: got %+v, %v, want a later one", last, reply, err)
				}
				last = ack.Through
			}
			a.finish(nil)
		})
	}
}

// A refusal that is being written still takes the room of a line: a producer that does not read
// has no more than its share.
func TestRefusalsUnderWayTakeRoom(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer ours.Close()
	a := newAnswers(ours, 1)
	if !a.tryReserve(1) {
		t.Fatal("got no room for the first line")
	}
	a.receive(sources.Receipt{Through: 1, Lines: 1, Refused: []sources.Refusal{{Number: 1, Reason: sources.InvalidJSON}}})
	if _, err := theirs.Read(make([]byte, 1)); err != nil { // from now on the write is under way
		t.Fatal(err)
	}
	if a.tryReserve(maxUnanswered) {
		t.Fatalf("got room for %d lines beside a refusal that is not written, want it for one less", maxUnanswered)
	}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, theirs) }) // until the end
	if err := a.reserve(t.Context(), t.Context(), maxUnanswered); err != nil {
		t.Errorf("got %v once the refusal is written, want room", err)
	}
	a.finish(nil)
	ours.Close()
	reading.Wait()
}

// A producer that takes no answers any more has none to wait for: neither the refusals
// that it has not read nor those that come later hold up its lines, or the connection
// that replaces this one.
func TestRefusalsOfADeadConnectionAreForgotten(t *testing.T) {
	t.Parallel()
	ours, theirs := socketPair(t)
	a := newAnswers(ours, 1)
	refuse := func(from, to uint64) {
		var r sources.Receipt
		for n := from; n <= to; n++ {
			r.Refused = append(r.Refused, sources.Refusal{Number: n, Reason: sources.InvalidJSON})
		}
		r.Through = to
		a.receive(r)
	}
	if !a.tryReserve(maxUnanswered) {
		t.Fatal("got no room for the first lines")
	}
	refuse(1, maxUnanswered) // more than the socket holds
	theirs.Close()
	<-a.done
	if !a.drained() {
		t.Error("the refusals that were not written are waited for, want them forgotten")
	}
	refuse(maxUnanswered+1, maxUnanswered+9)
	if !a.drained() || !a.tryReserve(maxUnanswered) {
		t.Error("the refusals of later lines are waited for, want them forgotten")
	}
}

func readLine(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}
