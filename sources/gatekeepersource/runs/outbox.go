package runs

import (
	"bytes"
	"context"

	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/gatekeepersource/inventory"
)

// PieceBytes is how much is gathered before it is sent: a frame of the queue costs a
// header and its share of a sync.
const PieceBytes = 256 << 10

// outbox sends the lines of one file from the first that is not durable on, in pieces. An error
// may be about lines that were added before.
type outbox struct {
	ctx        context.Context // of the reading of the file, which makes and ends the outbox
	feed       *feed.Feed
	pieceBytes int
	producer   string // whose lines they are
	acked      uint64 // the highest number that is durable already
	varies     bool   // once all is durable, another reading may have fewer lines
	number     uint64 // of the line that was added last
	lines      []byte
	n          int // of lines
}

// openOutbox begins to send the lines of a claim, whose producer is made of parts.
func (r *Reader) openOutbox(ctx context.Context, f inventory.File, producer ...string) (*outbox, error) {
	source := r.Env.Name
	if r.renamed[f.ID] {
		producer = append(producer, "again")
	}
	name := feed.Producer(append([]string{source}, producer...)...)
	out, acked, err := feed.Open(ctx, r.in, source, name, 1)
	if err == nil && acked > 0 {
		out.Close()
		out, acked, err = feed.Open(ctx, r.in, source, name, acked+1)
	}
	if err != nil {
		return nil, err
	}
	return &outbox{ctx: ctx, feed: out, producer: name, pieceBytes: r.PieceBytes, acked: acked}, nil
}

// add takes the next line, without its "\n".
func (o *outbox) add(text []byte) error {
	if o.number++; o.number <= o.acked {
		return nil
	}
	o.lines = append(append(o.lines, text...), '\n')
	if o.n++; len(o.lines) < o.pieceBytes {
		return nil
	}
	return o.flush()
}

// addLine takes the next line of the file.
func (o *outbox) addLine(l line) error {
	if l.length > 0 {
		return o.addTooLong(l.text, l.length)
	}
	return o.add(l.text)
}

// addLines takes whole lines.
func (o *outbox) addLines(lines []byte) error {
	for text := range bytes.Lines(lines) {
		if err := o.add(text[:len(text)-1]); err != nil {
			return err
		}
	}
	return nil
}

// addTooLong takes a line that is not held in full.
func (o *outbox) addTooLong(prefix []byte, length int64) error {
	if o.number++; o.number <= o.acked {
		return nil
	}
	if err := o.flush(); err != nil {
		return err
	}
	return o.feed.SendTooLarge(o.ctx, prefix, length)
}

func (o *outbox) flush() error {
	if o.ctx.Err() != nil { // a queue that has room does not look
		return context.Cause(o.ctx)
	}
	err := o.feed.Send(o.ctx, o.lines, o.n)
	o.lines, o.n = o.lines[:0], 0
	return err
}

// finish sends what was gathered, and waits until everything is durable. It fails with a
// *feed.Conflict when the queue has more lines than there can be: those are others.
func (o *outbox) finish(ctx context.Context) error {
	if o.acked > o.number && !o.varies {
		return &feed.Conflict{Producer: o.producer, Acked: o.acked}
	}
	if err := o.flush(); err != nil {
		return err
	}
	return o.feed.Settle(ctx)
}

// MemoryBytes is what a Reader has in memory at most: the lines it reads, and the pieces
// that are gathered and sent, which may lie in buffers twice as large.
func MemoryBytes(maxRecordBytes int) int64 {
	return 4*int64(max(maxRecordBytes, blockSize)) + 4*int64(PieceBytes+maxRecordBytes)
}
