package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/docket-export/docket/decision/stream"
)

const (
	// Pauses between attempts double from the first to the last.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// writeBytes bounds one write: what is being written cannot be overwritten,
	// so a larger one would hold up Send while the exporter does not read.
	writeBytes = 256 << 10
	// lastWords is how long a connection that takes no more lines is read for
	// acks, and the reason, that arrived before.
	lastWords = time.Second
)

// errBetterNext ends a connection on which the exporter turned out to have lines
// that the hello offered: the next hello starts behind them.
var errBetterNext = errors.New("the exporter knows more lines")

// run keeps a connection until ctx is done.
func (s *Sender) run(ctx context.Context) {
	defer close(s.done)
	var pause pauses
	for ctx.Err() == nil {
		answered, err := s.connect(ctx)
		if answered {
			pause.reset()
		}
		if errors.Is(err, errBetterNext) {
			continue
		}
		if s.ended(ctx) {
			return
		}
		wait := pause.next()
		if s.config.Disconnected != nil {
			s.config.Disconnected(err, wait)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// ended reports whether there is no point in another connection.
func (s *Sender) ended(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil || ctx.Err() != nil
}

// connect makes one connection and serves it until it breaks. answered says
// whether the exporter took the hello.
func (s *Sender) connect(ctx context.Context) (answered bool, err error) {
	nc, err := s.config.Dial(ctx)
	if err != nil {
		return false, err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	replies := bufio.NewReaderSize(nc, stream.MaxReply)
	offset, forgotten, err := s.greet(nc, replies)
	if err != nil {
		return errors.Is(err, errBetterNext), err
	}
	if s.config.Connected != nil {
		s.config.Connected(forgotten)
	}
	return true, s.serve(nc, replies, offset)
}

// greet says hello and returns the offset of the line that comes next.
func (s *Sender) greet(nc net.Conn, replies *bufio.Reader) (offset, forgotten uint64, err error) {
	s.mu.Lock()
	hello := stream.Hello{Producer: s.config.Producer, Next: s.base + s.win.first}
	s.mu.Unlock()
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
	answer, ok := reply.(stream.Answer)
	if !ok {
		return 0, 0, fmt.Errorf("hello: the exporter answered with %T", reply)
	}
	offset, forgotten, err = s.resume(hello.Next, answer.Acked)
	if errors.Is(err, errBetterNext) {
		if err := s.acked(answer.Acked); err != nil {
			return 0, 0, err
		}
	}
	return offset, forgotten, err
}

// resume finds the place in the window where the exporter, which has acked, and
// the hello, which said next, agree to go on.
func (s *Sender) resume(next, acked uint64) (offset, forgotten uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case acked < next:
		s.met, s.broken = true, false
		s.stats.Connected = true
		s.stats.Connections++
		forgotten = next - 1 - acked
		s.stats.Forgotten = max(s.stats.Forgotten, forgotten)
		return s.win.tail, forgotten, nil
	case !s.met:
		// An earlier process of this producer sent those. Our own numbers, none
		// of which was sent, follow them.
		s.met, s.base = true, acked
		return 0, 0, errBetterNext
	case !s.sent(acked - s.base):
		// Going on would make the exporter take new lines for known ones.
		s.fail(fmt.Errorf("producer %s: somebody else sends under this name: choose another", s.config.Producer))
		return 0, 0, s.err
	}
	return 0, 0, errBetterNext
}

// serve writes lines from offset on and reads replies until either fails.
func (s *Sender) serve(nc net.Conn, replies *bufio.Reader, offset uint64) error {
	read := make(chan error, 1)
	go func() {
		err := s.readReplies(replies)
		s.mu.Lock()
		s.broken, s.stats.Connected = true, false
		s.data.Signal()
		s.mu.Unlock()
		nc.Close() // a write may be waiting for the exporter to read
		read <- err
	}()
	if err := s.writeLines(nc, offset); err != nil {
		// It fails only on a closed connection, where no read waits.
		_ = nc.SetReadDeadline(time.Now().Add(lastWords))
	}
	return <-read
}

// writeLines writes what is in the window from offset on, and what comes, until
// the connection breaks.
func (s *Sender) writeLines(nc net.Conn, offset uint64) error {
	for {
		piece := s.nextPiece(offset)
		if piece == nil {
			return nil
		}
		_, err := nc.Write(piece)
		s.unpin()
		if err != nil {
			return err
		}
		offset += uint64(len(piece))
	}
}

// nextPiece waits for lines at offset and pins them; nil when the link is broken.
func (s *Sender) nextPiece(offset uint64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.win.head == offset && !s.broken {
		s.data.Wait()
	}
	if s.broken {
		return nil
	}
	piece := s.win.piece(offset, writeBytes)
	s.win.pinned, s.win.pin = true, offset
	s.handed = max(s.handed, offset+uint64(len(piece)))
	return piece
}

func (s *Sender) unpin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.win.pinned = false
	s.space.Broadcast()
}

// readReplies takes replies until the connection ends, which it explains.
func (s *Sender) readReplies(replies *bufio.Reader) error {
	for {
		reply, err := readReply(replies)
		if err != nil {
			return err
		}
		switch r := reply.(type) {
		case stream.Ack:
			err = s.acked(r.Through)
		case stream.Refused:
			err = s.refused(r)
		default:
			err = fmt.Errorf("unexpected %T from the exporter", reply)
		}
		if err != nil {
			return err
		}
	}
}

// acked takes an ack of the wire.
func (s *Sender) acked(through uint64) error {
	s.mu.Lock()
	n, ok := s.number(through)
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("ack %d from the exporter, which was not sent that line", through)
	}
	s.advance(n)
	return nil
}

// refused takes a refusal of the wire. The line counts as handled when all
// before it are.
func (s *Sender) refused(r stream.Refused) error {
	s.mu.Lock()
	n, ok := s.number(r.Seq)
	at, told := slices.BinarySearch(s.skipped, n)
	told = told || n < s.win.first
	if ok && !told {
		s.skipped = slices.Insert(s.skipped, at, n)
		s.stats.Refused++
	}
	s.mu.Unlock()
	switch {
	case !ok:
		return fmt.Errorf("refusal of line %d by the exporter, which was not sent it", r.Seq)
	case told: // on an earlier connection
		return nil
	}
	if s.config.Refused != nil {
		r.Seq = n
		s.config.Refused(r)
	}
	s.advance(0)
	return nil
}

// advance lets go of the lines up to n, and of the refused ones that follow.
// Only the goroutine that reads replies, or greets, moves the window's tail, so
// that the callback can be called before anybody sees the lines gone.
func (s *Sender) advance(n uint64) {
	s.mu.Lock()
	before := s.win.first - 1
	n = max(n, before)
	for len(s.skipped) > 0 && s.skipped[0] <= n+1 {
		n = max(n, s.skipped[0])
		s.skipped = s.skipped[1:]
	}
	s.mu.Unlock()
	if n == before {
		return
	}
	if s.config.Acked != nil {
		s.config.Acked(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.win.release(n)
	s.space.Broadcast()
	s.handled.Broadcast()
}

// number translates a number of the wire. It is false for a line that was never
// sent.
func (s *Sender) number(wire uint64) (n uint64, ok bool) {
	if wire <= s.base {
		return 0, true
	}
	n = wire - s.base
	return n, s.sent(n)
}

// sent reports whether line n was given to a connection as a whole.
func (s *Sender) sent(n uint64) bool {
	return n < s.win.first || n <= s.win.last() && s.win.end(n) <= s.handed
}

// fail ends the sender for good, with mu held.
func (s *Sender) fail(err error) {
	s.err = err
	s.space.Broadcast()
	s.handled.Broadcast()
}

// closedError is the reason that an exporter gave for closing.
type closedError struct{ reason string }

func (e *closedError) Error() string { return "the exporter closed the connection: " + e.reason }

// readReply reads one reply. The end of the connection is an error.
func readReply(replies *bufio.Reader) (stream.Reply, error) {
	line, err := replies.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the exporter closed the connection")
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
