package streamsource

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/docket-export/docket/decision/stream"
	"github.com/docket-export/docket/sources"
)

const (
	// maxUnanswered bounds the lines of one connection whose fate is open, and the
	// refusals that the producer has not read, of which the intake makes no more before
	// those are written. 16,384 lines of 1 KiB are more than two commits of the largest
	// size.
	maxUnanswered = 16 << 10
	// Refusals are written in pieces of about this size: what is being written to a
	// producer that does not read is in memory.
	answerBytes = 4 << 10
	// linger is how long the last answers may be stuck before a producer that
	// does not read them is left. Before the end there is no such limit: a
	// stalled producer costs one goroutine and its buffers.
	linger = 30 * time.Second
)

// answers is the way back to one producer: it turns receipts into lines and
// writes them from a goroutine of its own, so that a producer that does not read
// holds up nobody but itself. What is settled while a write is under way is
// written together with the next. The goroutine lives as long as there is
// something to write: a producer that is idle has none.
//
// A single ack, to a producer that waits for it, is written by whoever brings its
// receipt, if the kernel takes it at once: see writeNow.
type answers struct {
	nc   net.Conn
	raw  syscall.RawConn // of nc; nil where a write is more than a system call
	room chan struct{}   // to the reader: there may be room
	done chan struct{}   // closed when no more answers will be written

	mu        sync.Mutex
	writing   bool              // the writer is at work
	first     []byte            // the answer to the hello, or the rest of an ack, until the writer takes it
	submitted uint64            // number of the last line handed to the session
	settled   uint64            // every line up to here is settled
	owed      bool              // a receipt came after the last ack
	refused   []sources.Refusal // settled, not yet taken by the writer
	unwritten int               // refusals taken and not yet written
	ending    bool              // no more lines will be submitted
	ended     bool              // nothing more will be settled: write what is owed and end
	closing   []byte            // the very last line
	failed    bool              // the producer takes no answers any more
}

// newAnswers returns the answers to lines numbered from next on.
func newAnswers(nc net.Conn, next uint64) *answers {
	var raw syscall.RawConn
	switch nc := nc.(type) {
	case *net.UnixConn:
		raw, _ = nc.SyscallConn() // it fails only on a closed connection
	case *net.TCPConn:
		raw, _ = nc.SyscallConn()
	}
	return &answers{
		nc:        nc,
		raw:       raw,
		room:      make(chan struct{}, 1),
		done:      make(chan struct{}),
		submitted: next - 1,
		settled:   next - 1,
	}
}

// start begins to write, the answer to the hello first.
func (a *answers) start(acked uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settled = max(a.settled, acked)
	a.first = stream.Answer{Acked: acked}.Append(nil)
	a.wake()
}

// wake sees to it that what there is to write is written. a.mu must be held.
func (a *answers) wake() {
	if !a.writing && !a.failed {
		a.writing = true
		go a.write()
	}
}

// receive takes a receipt. It does not block.
func (a *answers) receive(r sources.Receipt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settled = max(a.settled, r.Through)
	if !a.failed && !a.ended {
		a.owed = true
		a.refused = append(a.refused, r.Refused...)
		if !r.Alone || !a.writeNow() {
			a.wake()
		}
	}
	notify(a.room)
}

// writeNow writes an ack that is all there is to write, and reports whether it
// has. It does not wait: what the kernel does not take is left to the writer. A
// goroutine would cost more than the write itself, most of all in the time until
// the producer has its ack. a.mu must be held.
func (a *answers) writeNow() bool {
	if a.raw == nil || a.writing || len(a.first) > 0 || len(a.refused) > 0 {
		return false
	}
	ack := stream.Ack{Through: a.settled}.Append(make([]byte, 0, 32))
	n := 0
	err := a.raw.Write(func(fd uintptr) (done bool) {
		n, _ = syscall.Write(int(fd), ack) // the writer meets the same error
		return true
	})
	a.owed = false
	if err != nil || n < len(ack) {
		a.first = ack[max(n, 0):]
		return false
	}
	return true
}

// reserve waits until n more lines may be submitted, or ctx or stop is done.
// That is at once unless lines are refused faster than the producer reads about
// it, or a great many are not settled yet.
func (a *answers) reserve(ctx, stop context.Context, n int) error {
	for !a.tryReserve(n) {
		select {
		case <-a.room:
		case <-stop.Done():
			return errStopping
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// drain waits until every refusal is written, or ctx or stop is done. A producer that
// takes no answers any more has none to wait for.
func (a *answers) drain(ctx, stop context.Context) error {
	for !a.drained() {
		select {
		case <-a.room:
		case <-stop.Done():
			return errStopping
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (a *answers) drained() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.refused)+a.unwritten == 0
}

func (a *answers) tryReserve(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	open := len(a.refused) + a.unwritten + n
	if a.submitted > a.settled {
		open += int(a.submitted - a.settled)
	}
	if open > maxUnanswered {
		return false
	}
	a.submitted += uint64(n)
	return true
}

// expire bounds the writes to a producer that does not read. It is called
// when no more lines will be submitted.
func (a *answers) expire() {
	a.mu.Lock()
	a.ending = true
	a.mu.Unlock()
	a.setDeadline()
}

// finish writes what is owed and then closing, and waits until that is done.
func (a *answers) finish(closing []byte) {
	a.mu.Lock()
	a.ended, a.closing = true, closing
	a.wake()
	a.mu.Unlock()
	<-a.done
}

// write is the writing goroutine.
func (a *answers) write() {
	var buf []byte
	for {
		var more bool
		if buf, more = a.next(buf[:0]); !more {
			return
		}
		a.setDeadline()
		if _, err := a.nc.Write(buf); err != nil {
			a.fail()
			return
		}
		a.written()
	}
}

// next appends the next lines to write to buf. An ack never overtakes the
// refusal of a line that it covers, nor a refusal its turn. When there are none,
// more is false and the writer is no longer at work.
func (a *answers) next(buf []byte) (lines []byte, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if buf = a.appendOwed(buf); len(buf) > 0 {
		return buf, true
	}
	a.writing = false
	if a.ended {
		close(a.done)
	}
	return nil, false
}

// appendOwed appends what is owed now, or a part of it.
func (a *answers) appendOwed(buf []byte) []byte {
	buf, a.first = append(buf, a.first...), nil
	n := 0
	for n < len(a.refused) && a.refused[n].Number <= a.settled && len(buf) < answerBytes {
		r := a.refused[n]
		buf = stream.Refused{Seq: r.Number, Reason: string(r.Reason), Detail: r.Detail}.Append(buf)
		n++
	}
	a.unwritten = n
	if a.refused = a.refused[n:]; len(a.refused) == 0 {
		a.refused = nil // a burst of refusals is not remembered for ever
	} else if a.refused[0].Number <= a.settled {
		return buf
	}
	if a.owed {
		buf = stream.Ack{Through: a.settled}.Append(buf)
		a.owed = false
	}
	if a.ended {
		buf, a.closing = append(buf, a.closing...), nil
	}
	return buf
}

func (a *answers) written() {
	a.mu.Lock()
	a.unwritten = 0
	a.mu.Unlock()
	notify(a.room)
}

// fail gives up answering. The lines that still arrive are taken all the same:
// a producer that died after it sent them cannot send them again.
func (a *answers) fail() {
	a.mu.Lock()
	a.failed, a.writing, a.owed = true, false, false
	a.refused, a.unwritten = nil, 0
	close(a.done)
	a.mu.Unlock()
	notify(a.room)
}

// setDeadline gives the write that is under way, or the next one, time to end.
func (a *answers) setDeadline() {
	a.mu.Lock()
	ending := a.ending
	a.mu.Unlock()
	if ending {
		// It fails only on a closed connection, and so does the write.
		_ = a.nc.SetWriteDeadline(time.Now().Add(linger))
	}
}

// notify wakes the one goroutine that waits for c, or the next that will.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
