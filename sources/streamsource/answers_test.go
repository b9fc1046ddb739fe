package streamsource

import (
	"bufio"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/decision/stream"
	"github.com/docket-export/docket/sources"
)

// socketPair returns the two ends of a connection over a Unix socket.
func socketPair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if theirs, err = net.Dial("unix", ln.Addr().String()); err != nil {
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
	a := newAnswers(ours, 1, func() string { return "" })
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
// whole once the producer reads.
func TestLoneAckDoesNotWait(t *testing.T) {
	t.Parallel()
	ours, theirs := socketPair(t)
	a := newAnswers(ours, 1, func() string { return "" })
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
}

// A producer that takes no answers any more has none to wait for: neither the refusals
// that it has not read nor those that come later hold up its lines, or the connection
// that replaces this one.
func TestRefusalsOfADeadConnectionAreForgotten(t *testing.T) {
	t.Parallel()
	ours, theirs := socketPair(t)
	a := newAnswers(ours, 1, func() string { return "" })
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

// A producer whose lines are not durable for 2 s is told why, if that is known: once for each
// reason until a line is.
func TestStallIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		var why atomic.Value // of a func() string
		because := func(reason string) { why.Store(func() string { return reason }) }
		because("")
		a := newAnswers(ours, 1, func() string { return why.Load().(func() string)() })
		lines := make(chan string, 10)
		go func() {
			defer close(lines)
			for replies := bufio.NewScanner(theirs); replies.Scan(); {
				lines <- replies.Text()
			}
		}()
		within := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			var got []string
			for len(lines) > 0 {
				got = append(got, <-lines)
			}
			if !slices.Equal(got, want) {
				t.Errorf("within %s: got %q, want %q", d, got, want)
			}
		}
		within(time.Hour) // a producer that is idle does not wait
		if !a.tryReserve(3) {
			t.Fatal("got no room for three lines")
		}
		within(time.Hour)
		because(stream.QueueFull)
		within(stallTime, `{"ack":0,"waiting":"QueueFull"}`)
		within(time.Hour)
		a.receive(sources.Receipt{Through: 1, Lines: 1})
		within(stallTime, `{"ack":1}`)
		within(stallLook, `{"ack":1,"waiting":"QueueFull"}`)
		because(stream.DiskFails)
		within(stallLook, `{"ack":1,"waiting":"DiskFails"}`)
		a.receive(sources.Receipt{Through: 3, Lines: 2})
		within(time.Hour, `{"ack":3}`)
		if !a.tryReserve(2) {
			t.Fatal("got no room for two lines")
		}
		why.Store(func() string { // which comes too late
			a.receive(sources.Receipt{Through: 4, Lines: 1})
			return stream.QueueFull
		})
		within(stallTime, `{"ack":4}`)
		why.Store(func() string {
			a.finish(nil)
			return stream.QueueFull
		})
		within(time.Hour)
		ours.Close()
		<-lines
	})
}
