package tap

import (
	"errors"
	"io"
	"sync"
)

// body is that of a request. Another goroutine than the handler's may read it, longer
// than the handler runs.
type body struct {
	source io.ReadCloser

	reading sync.Mutex // held while source is read; taken before mu
	closed  bool       // nobody may read any more; guarded by reading
	piece   *piece     // what was read of source; nil: nothing was; guarded by reading
	kept    int        // of piece; guarded by reading
	again   []byte     // of piece, to be read once more; guarded by reading
	more    bool       // more was read than piece has room for; guarded by reading

	mu  sync.Mutex
	end bool  // all of source was read; guarded by mu
	err error // that source ended with, and not its end; guarded by mu
}

// piece is the beginning of a body.
type piece [pieceBytes]byte

var pieces = sync.Pool{New: func() any { return new(piece) }}

var errClosed = errors.New("nobody reads the body any more")

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.closed {
		return 0, errClosed
	}
	if len(b.again) > 0 {
		n := copy(p, b.again)
		b.again = b.again[n:]
		return n, nil
	}
	n, err := b.source.Read(p)
	if b.piece == nil {
		b.piece = pieces.Get().(*piece)
	}
	if b.more = b.more || b.kept+n > pieceBytes; !b.more {
		b.kept += copy(b.piece[b.kept:], p[:n])
	}
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if errors.Is(err, io.EOF) {
			b.end = true
		} else {
			b.err = err
		}
	}
	return n, err
}

// Close leaves the source open: it is the server's.
func (b *body) Close() error { return nil }

// rewind has the body read from its beginning again, if all that was read is kept.
func (b *body) rewind() bool {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.kept > 0 {
		b.again = b.piece[:b.kept]
	}
	return !b.more
}

// release ends every other reading and gives up the piece, unless somebody reads right now.
func (b *body) release() {
	if !b.reading.TryLock() {
		return
	}
	defer b.reading.Unlock()
	b.closed = true
	if b.piece != nil {
		pieces.Put(b.piece)
		b.piece = nil
	}
}

// drain reads what is left of the source, and ends every other reading.
func (b *body) drain() {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.closed = true
	_, _ = io.Copy(io.Discard, b.source)
}

// failure is why the body could not be read to its end.
func (b *body) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// ended reports whether all of the body was read.
func (b *body) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end
}
