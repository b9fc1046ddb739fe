package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/docket-export/docket/decision/stream"
)

const (
	// Pauses between attempts double from the first to the last.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// closingPause is the longest between attempts once Close was called.
	closingPause = 200 * time.Millisecond
	// answerTimeout is how long an exporter may take to answer a hello. Before
	// that it may have to settle the lines of the connection before.
	answerTimeout = 30 * time.Second
	// lastReplies is how long a connection that takes no more lines is read, for
	// acks and the reason that arrived before.
	lastReplies = time.Second
)

// errBetterNext ends a connection on which the exporter turned out to have lines
// that the hello offered: the next hello starts behind them.
var errBetterNext = errors.New("docket knows more lines")

// errStolen ends a link for good.
var errStolen = errors.New("another producer uses this name: choose another name")

// run keeps a connection until ctx is done or the link has failed.
func (k *link) run(ctx context.Context) {
	defer close(k.done)
	defer k.disown()
	var pause pauses
	for ctx.Err() == nil {
		began, first := time.Now(), k.first()
		err := k.connect(ctx)
		// An answer alone is no reason for hope: an exporter whose queue is full
		// answers, and closes at the first line.
		if k.first() > first || time.Since(began) > lastPause {
			pause.reset()
		}
		if errors.Is(err, errBetterNext) {
			continue
		}
		wait := pause.next()
		k.mu.Lock()
		k.away = err
		over := k.err != nil
		k.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		if k.disconnected != nil {
			k.disconnected(err, wait)
		}
		if over {
			return
		}
		k.pause(ctx, wait)
	}
}

// pause waits for d. Close has seconds at most: an exporter that is back is found within
// closingPause from then on.
func (k *link) pause(ctx context.Context, d time.Duration) {
	closing := k.closing
	for {
		select {
		case <-time.After(d):
			return
		case <-ctx.Done():
			return
		case <-closing:
			d, closing = min(d, closingPause), nil
		}
	}
}

// first is the number of the first line that is not handled.
func (k *link) first() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.box.first
}

// connect makes one connection and serves it until it breaks.
func (k *link) connect(ctx context.Context) error {
	nc, err := k.dial(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	replies := bufio.NewReaderSize(nc, stream.MaxReply)
	next, forgotten, err := k.greet(nc, replies)
	if err != nil {
		return err
	}
	if k.connected != nil {
		k.connected(forgotten)
	}
	return k.serve(nc, replies, next)
}

// greet says hello and returns the number of the line that comes next.
func (k *link) greet(nc net.Conn, replies *bufio.Reader) (next, forgotten uint64, err error) {
	k.mu.Lock()
	hello := stream.Hello{Producer: k.producer, Next: k.box.first}
	k.mu.Unlock()
	if err := nc.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return 0, 0, fmt.Errorf("hello: %w", err)
	}
	if _, err := nc.Write(hello.Append(nil)); err != nil {
		// The exporter may have said why before it closed.
		if _, refusal := readReply(replies); errors.As(refusal, new(*closedError)) {
			return 0, 0, refusal
		}
		return 0, 0, fmt.Errorf("hello: %w", err)
	}
	reply, err := readReply(replies)
	if err != nil {
		return 0, 0, fmt.Errorf("hello: %w", err)
	}
	// On a connection that has ended by now it fails, and so does the next read.
	_ = nc.SetDeadline(time.Time{})
	answer, ok := reply.(stream.Answer)
	if !ok {
		return 0, 0, fmt.Errorf("hello: docket answered with %T", reply)
	}
	if answer.Acked < hello.Next {
		return hello.Next, k.goOn(hello.Next, answer.Acked), nil
	}
	if err := k.catchUp(answer.Acked); err != nil {
		return 0, 0, err
	}
	return 0, 0, errBetterNext
}

// goOn takes an answer to a hello with next: the lines from next on are sent, and
// judged anew.
func (k *link) goOn(next, acked uint64) (forgotten uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.box.flight.len() {
		k.box.flight.at(i).refused = nil
	}
	forgotten = next - 1 - acked
	k.met = true
	k.away = nil
	k.stats.connected = true
	k.stats.connections++
	k.stats.forgotten = max(k.stats.forgotten, forgotten)
	return forgotten
}

// catchUp takes an answer which says that the exporter has more lines of this
// producer than the hello assumed.
func (k *link) catchUp(acked uint64) error {
	k.mu.Lock()
	last := k.box.last()
	met := k.met
	if met && acked > last {
		// Going on would make the exporter take new lines for known ones.
		k.fail(fmt.Errorf("producer %s: %w", k.producer, errStolen))
		defer k.mu.Unlock()
		return k.err
	}
	k.met = true
	k.mu.Unlock()
	k.advance(min(acked, last))
	if acked > last {
		// An earlier process of this producer sent those. Our own numbers, none
		// of which was sent, follow them.
		k.mu.Lock()
		k.base += acked + 1 - k.box.first
		k.box.first = acked + 1
		k.mu.Unlock()
	}
	return nil
}

// serve writes lines from number next on and reads replies until either fails.
func (k *link) serve(nc net.Conn, replies *bufio.Reader, next uint64) error {
	broken := make(chan struct{})
	read := make(chan error, 1)
	go func() {
		err := k.readReplies(replies)
		k.mu.Lock()
		k.stats.connected = false
		k.mu.Unlock()
		close(broken)
		nc.Close() // a write may be waiting for the exporter to read
		read <- err
	}()
	if err := k.writeLines(nc, next, broken); err != nil {
		// It fails only on a closed connection, where no read waits.
		_ = nc.SetReadDeadline(time.Now().Add(lastReplies))
	}
	return <-read
}

// readReplies takes replies until the connection ends, which it explains.
func (k *link) readReplies(replies *bufio.Reader) error {
	for {
		reply, err := readReply(replies)
		if err != nil {
			return err
		}
		switch r := reply.(type) {
		case stream.Ack:
			err = k.takeAck(r)
		case stream.Refused:
			err = k.takeRefusal(r)
		default:
			err = fmt.Errorf("unexpected %T from docket", reply)
		}
		if err != nil {
			return err
		}
	}
}

// takeAck takes an ack of the wire.
func (k *link) takeAck(a stream.Ack) error {
	k.mu.Lock()
	last := k.box.last()
	k.mu.Unlock()
	if a.Through > last {
		return fmt.Errorf("docket acknowledged line %d, which was never sent", a.Through)
	}
	k.advance(a.Through)
	return nil
}

// takeRefusal takes a refusal of the wire. The line counts as handled when all
// before it are.
func (k *link) takeRefusal(r stream.Refused) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Seq > k.box.last() {
		return fmt.Errorf("docket refused line %d, which was never sent", r.Seq)
	}
	l := k.box.inFlight(r.Seq)
	if l == nil || l.refused != nil { // told on an earlier connection
		return nil
	}
	l.refused = &RefusedError{Reason: r.Reason, Detail: r.Detail}
	k.stats.refused++
	r.Seq -= min(k.base, r.Seq)
	k.unlocked(func() {
		if k.refused != nil {
			k.refused(r)
		}
		k.advance(0)
	})
	return nil
}

// releaseLines is how many lines are released under mu at a time: a TryLog must not
// wait for thousands.
const releaseLines = 64

// advance releases the lines up to n, and the refused ones that follow.
// Only the goroutine that reads replies, or greets, moves the front of what is in
// flight, so that acked can be called before anybody sees the lines gone.
func (k *link) advance(n uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n = max(n, k.box.first-1)
	for l := k.box.inFlight(n + 1); l != nil && l.refused != nil; l = k.box.inFlight(n + 1) {
		n++
	}
	if n < k.box.first {
		return
	}
	k.unlocked(func() {
		if k.acked != nil {
			k.acked(n - k.base)
		}
	})
	told := false
	for k.box.first <= n {
		for range min(releaseLines, n-k.box.first+1) {
			l := k.box.release()
			told = told || l.report != nil
			k.handled(l)
		}
		k.admit()
		k.unlocked(func() {})
	}
	if told && k.lost != nil {
		k.unlocked(k.lost)
	}
}

// unlocked calls f without mu, which is held again afterwards.
func (k *link) unlocked(f func()) {
	k.mu.Unlock()
	defer k.mu.Lock()
	f()
}

// handled ends a line that is no longer in flight, with mu held.
func (k *link) handled(l *line) {
	if l.report != nil {
		k.losses.saying--
		if l.refused != nil { // which is told again later
			k.losses.untold.add(l.report)
		}
		k.wakeWriter() // there may be more to tell
	}
	if l.refused != nil {
		k.finish(l, l.refused)
		return
	}
	if l.report == nil {
		k.stats.stored++
	}
	k.finish(l, nil)
}

// closedError is the reason that an exporter gave for closing.
type closedError struct{ reason string }

func (e *closedError) Error() string { return "docket closed the connection: " + e.reason }

// readReply reads one reply. The end of the connection is an error.
func readReply(replies *bufio.Reader) (stream.Reply, error) {
	line, err := replies.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("docket closed the connection")
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("reply: longer than %d bytes", stream.MaxReply)
	case err != nil:
		return nil, err
	}
	reply, err := stream.ParseReply(line)
	if closing, ok := reply.(stream.Closing); ok {
		return nil, &closedError{closing.Reason}
	}
	return reply, err
}

// pauses are the delays between attempts, which grow and scatter: producers that
// lost the same exporter do not come back in step.
type pauses struct{ last time.Duration }

func (p *pauses) next() time.Duration {
	p.last = min(max(2*p.last, firstPause), lastPause)
	return p.last/2 + rand.N(p.last/2+1)
}

func (p *pauses) reset() { p.last = 0 }
