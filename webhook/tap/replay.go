package tap

import (
	"errors"
	"io"
	"sync"
)

// keepBytes is how much of a body is kept. When a request turns out to have been given a
// dead connection, its body was read up to pieceBytes, or up to the buffers of the pool if
// it is chunked: 36 KiB.
const keepBytes = 36 << 10

// keepers are buffers of keepBytes.
var keepers = sync.Pool{New: func() any { return new([keepBytes]byte) }}

// replay is the body of a request. Its beginning is kept until the engine has had some of
// the request, so that another connection can be given it instead.
type replay struct {
	source io.ReadCloser // nil: there is no body
	spent  func() bool   // whether it is of no use to keep more

	reading sync.Mutex // held while source is read; taken before mu

	mu     sync.Mutex
	kept   []byte // what was read of source; guarded by mu
	whole  bool   // kept is all of it; guarded by mu
	end    bool   // all of source was read; guarded by mu
	err    error  // that source ended with, and not its end; guarded by mu
	reader *view  // the one that may read; guarded by mu
}

// view reads a replay from its beginning.
type view struct {
	of *replay
	at int // in kept; guarded by of.mu
}

// open returns the body from its beginning. One opened before reads no more. nil: too
// much of it is gone.
func (b *replay) open() io.ReadCloser {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.reader == nil:
		b.whole = true
	case !b.whole:
		return nil
	}
	b.reader = &view{of: b}
	return b.reader
}

var errClosed = errors.New("the body is read by nobody any more")

// Read reads what was kept, then the source. Reads of one body never overlap.
func (v *view) Read(p []byte) (int, error) {
	b := v.of
	b.mu.Lock()
	if b.reader != v {
		b.mu.Unlock()
		return 0, errClosed
	}
	if v.at < len(b.kept) {
		n := copy(p, b.kept[v.at:])
		v.at += n
		b.mu.Unlock()
		return n, nil
	}
	b.mu.Unlock()
	b.reading.Lock()
	defer b.reading.Unlock()
	n, err := b.source.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case errors.Is(err, io.EOF):
		b.end = true
	case err != nil:
		b.err = err
	}
	b.keep(p[:n])
	v.at += n
	return n, err
}

// keep keeps p, unless that is of no use any more. The caller holds mu.
func (b *replay) keep(p []byte) {
	if !b.whole {
		return
	}
	if len(b.kept)+len(p) > keepBytes || b.spent() {
		b.forget()
		return
	}
	if b.kept == nil {
		b.kept = keepers.Get().(*[keepBytes]byte)[:0]
	}
	b.kept = append(b.kept, p...)
}

// forget gives up what was kept. The caller holds mu.
func (b *replay) forget() {
	if b.kept != nil {
		keepers.Put((*[keepBytes]byte)(b.kept[:keepBytes]))
	}
	b.kept, b.whole = nil, false
}

// Close leaves the source open: it is the server's.
func (v *view) Close() error { return nil }

// release ends every reading.
func (b *replay) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reader = nil
	b.forget()
}

// drain reads what is left of the source, and ends every other reading.
func (b *replay) drain() {
	b.release()
	b.reading.Lock()
	defer b.reading.Unlock()
	_, _ = io.Copy(io.Discard, b.source)
}

// failure is why the body could not be read to its end.
func (b *replay) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// ended reports whether all of the body was read.
func (b *replay) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end
}
