package feed

import (
	"bytes"
	"context"
)

// Relay sends pieces in a goroutine of its own, while its caller makes the next piece. At
// most one piece is being sent, and one waits.
//
// Calls must not overlap. The relay owns the feed until Settle or Close has returned.
type Relay struct {
	feed  *Feed
	work  chan piece
	spare chan []byte   // what held pieces that are sent
	over  chan struct{} // closed when the goroutine has ended
	err   error         // why it has, if not as work is closed; written before over is closed
	ended bool          // work is closed
}

// piece is what is sent at a time.
type piece struct {
	lines  []byte
	n      int
	length int64 // of a line that is too long, of which lines is the beginning; else 0
}

// NewRelay begins to send what the relay is given, until Settle, Close, an error, or ctx
// is done.
func NewRelay(ctx context.Context, f *Feed) *Relay {
	r := &Relay{
		feed: f, work: make(chan piece, 1),
		spare: make(chan []byte, 3), // one is being sent, one waits, and one is the caller's
		over:  make(chan struct{}),
	}
	go r.run(ctx)
	return r
}

func (r *Relay) run(ctx context.Context) {
	defer close(r.over)
	for p := range r.work {
		if r.err = r.send(ctx, p); r.err != nil {
			return
		}
	}
}

func (r *Relay) send(ctx context.Context, p piece) error {
	if ctx.Err() != nil { // a queue that has room does not look
		return context.Cause(ctx)
	}
	if p.length > 0 {
		return r.feed.SendTooLarge(ctx, p.lines, p.length)
	}
	err := r.feed.Send(ctx, p.lines, p.n)
	r.spare <- p.lines[:0]
	return err
}

// Send takes over lines, in the form of Feed.Send. next is an empty buffer for the
// caller's next lines, or nil. Send blocks while another piece waits. Errors are those of
// Feed.Send: it is unknown then which of these lines, or of earlier ones, were sent.
func (r *Relay) Send(lines []byte, n int) (next []byte, err error) {
	if n == 0 {
		return lines[:0], nil
	}
	if err := r.hand(piece{lines: lines, n: n}); err != nil {
		return nil, err
	}
	select {
	case next = <-r.spare:
	default:
	}
	return next, nil
}

// SendTooLarge is Feed.SendTooLarge, and blocks and fails as Send does. It keeps no
// reference to prefix.
func (r *Relay) SendTooLarge(prefix []byte, length int64) error {
	return r.hand(piece{lines: bytes.Clone(prefix), length: length})
}

func (r *Relay) hand(p piece) error {
	if r.ended {
		return errOver
	}
	select {
	case r.work <- p:
		return nil
	case <-r.over:
		return r.err
	}
}

// Settle waits until everything is sent and durable. It ends the relay. It fails as
// Send does, or when ctx is done.
func (r *Relay) Settle(ctx context.Context) error {
	r.end()
	select {
	case <-r.over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if r.err != nil {
		return r.err
	}
	return r.feed.Settle(ctx)
}

// Close waits until everything is sent, or cannot be, and closes the feed. A second call
// does nothing.
func (r *Relay) Close() {
	r.end()
	<-r.over
	r.feed.Close()
}

// end lets the goroutine end once everything is sent.
func (r *Relay) end() {
	if !r.ended {
		r.ended = true
		close(r.work)
	}
}
