package queue

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/docket-export/docket/internal/disk"
)

// readSize is how much a reader asks of the file at once: large enough to run at
// the speed of the disk, small enough to keep one per sink.
const readSize = 1 << 20

// headerReadSize is how much one asks for that wants headers alone.
const headerReadSize = 4 << 10

// frameReader reads the frames of one segment in order.
//
// The payloads it returns stay valid until release, so that a batch can span
// frames without a copy.
type frameReader struct {
	file  disk.File
	epoch uint64

	// buf[pos:] are the bytes of the file from offset off on that have been
	// read and not yet returned. buf[held:pos] belongs to the caller until
	// release, and buf[:held] to nobody.
	buf  []byte
	held int
	pos  int
	off  int64
	// capacity is how large buf is made: what the caller wants to hold at once.
	capacity int
}

// errNoRoom says that the next frame does not fit behind what the caller still
// holds: it must release first.
var errNoRoom = errors.New("reader: no room before release")

// open points the reader at the first frame of a segment. The buffer is kept.
func (r *frameReader) open(file disk.File, epoch uint64) {
	r.file, r.epoch = file, epoch
	r.seek(segmentHeaderSize)
}

// openHeaders is open and seek for a reader of the headers alone between off and end.
func (r *frameReader) openHeaders(file disk.File, epoch uint64, off, end int64) {
	if from, to, err := file.Data(off); err == nil && from < end { // what was never written need not be there
		file.Prefetch(from, min(to, end))
	}
	r.buf = make([]byte, 0, headerReadSize)
	r.open(file, epoch)
	r.seek(off)
}

// seek continues at offset off. Bytes returned earlier are released.
func (r *frameReader) seek(off int64) {
	r.buf, r.held, r.pos, r.off = r.buf[:0], 0, 0, off
}

// release lets the reader reuse the bytes it has returned. Nothing is moved
// before the room is needed. A buffer that one large frame has needed is let go of when
// all of it was returned.
func (r *frameReader) release() {
	r.held = r.pos
	if r.pos == len(r.buf) && cap(r.buf) > 2*r.size() {
		r.buf, r.held, r.pos = nil, 0, 0
	}
}

// size is that of a buffer, unless one frame needs more.
func (r *frameReader) size() int { return max(readSize, r.capacity) }

// compact moves what has been read and not returned to the front of the buffer when
// less than room is left behind it, so that the next batch is as large as the one
// before. Nothing may be held.
func (r *frameReader) compact(room int) {
	if r.pos > 0 && cap(r.buf)-r.pos < room && r.held == r.pos {
		r.buf, r.held, r.pos = append(r.buf[:0], r.buf[r.pos:]...), 0, 0
	}
}

// next returns the frame at the reader's offset, which must end at or before
// limit, and the bytes of its payload. io.EOF: the offset is at limit.
// errNoRoom: release and call again. Any other error but one of the file means
// damage at the reader's offset, and leaves the reader there.
func (r *frameReader) next(limit int64) (frame, []byte, error) {
	if r.off >= limit {
		return frame{}, nil, io.EOF
	}
	f, err := r.header(limit)
	if err != nil {
		return frame{}, nil, err
	}
	if err := r.fill(f.size(), limit); err != nil {
		return frame{}, nil, err
	}
	b := r.buf[r.pos:]
	if err := f.checkPayload(b); err != nil {
		return frame{}, nil, err
	}
	// fill may have moved the buffer that the header's names alias.
	if f, err = parseHeader(b); err != nil {
		return frame{}, nil, err
	}
	payload := b[f.headerLen : f.headerLen+f.payloadLen]
	r.advance(f.size())
	return f, payload, nil
}

// skip passes the frame at the reader's offset without looking at its payload.
func (r *frameReader) skip(f *frame) {
	r.advance(f.size())
}

// peek returns the header of the frame at the reader's offset, as next does,
// and stays there.
func (r *frameReader) peek(limit int64) (frame, error) {
	if r.off >= limit {
		return frame{}, io.EOF
	}
	return r.header(limit)
}

func (r *frameReader) header(limit int64) (frame, error) {
	if err := r.fill(frameFixed, limit); err != nil {
		return frame{}, err
	}
	f, err := parseHeader(r.buf[r.pos:])
	if errors.Is(err, errShort) {
		if err := r.fill(int(le.Uint16(r.buf[r.pos+atHeaderLen:])), limit); err != nil {
			return frame{}, err
		}
		f, err = parseHeader(r.buf[r.pos:])
	}
	if err != nil {
		return frame{}, err
	}
	if f.epoch != r.epoch {
		return frame{}, errStale
	}
	return f, nil
}

// advance moves on by n bytes, which may lie beyond what is buffered.
func (r *frameReader) advance(n int) {
	r.off += int64(n)
	if r.pos+n <= len(r.buf) {
		r.pos += n
		return
	}
	r.pos = len(r.buf) // only skip gets here: fill reads on at off
}

// fill makes at least n unread bytes available, reading up to limit.
func (r *frameReader) fill(n int, limit int64) error {
	have := len(r.buf) - r.pos
	if have >= n {
		return nil
	}
	if r.off+int64(n) > limit {
		return errShort
	}
	if r.pos+n > cap(r.buf) {
		if r.held < r.pos {
			return errNoRoom
		}
		into := r.buf[:0]
		if n > cap(into) {
			into = make([]byte, 0, max(r.size(), n))
		}
		r.buf, r.held, r.pos = append(into, r.buf[r.pos:]...), 0, 0
	}
	from := r.off + int64(have)
	room := min(int64(cap(r.buf)-len(r.buf)), limit-from)
	if cap(r.buf) > 2*r.size() { // no more than the large frame: the buffer is let go of behind it
		room = min(room, int64(n-have))
	}
	got, err := readFull(r.file, r.buf[len(r.buf):len(r.buf)+int(room)], from)
	r.buf = r.buf[:len(r.buf)+got]
	if len(r.buf)-r.pos >= n {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return errShort // the file is shorter than it was when limit was taken
	}
	return fmt.Errorf("read at %d: %w", from, err)
}

// isDamage reports whether err means that the bytes are not a frame, rather than
// that they could not be read.
func isDamage(err error) bool {
	for _, d := range []error{errShort, errNoFrame, errVersion, errHeader, errPayload, errStale, errSequence} {
		if errors.Is(err, d) {
			return true
		}
	}
	return false
}

// resync moves the reader to the first whole frame at or after its offset that
// begins at seq or later, or has no records, and returns its header. io.EOF: there
// is none before limit.
func (r *frameReader) resync(seq uint64, limit int64) (frame, error) {
	for {
		f, err := r.wholeFrame(seq, limit)
		if err == nil || !isDamage(err) {
			return f, err
		}
		r.step(limit)
	}
}

// resyncHeader is resync that takes a frame at the reader's offset by its header alone.
func (r *frameReader) resyncHeader(seq uint64, limit int64) (frame, error) {
	f, err := r.nextHeader(seq, limit)
	if isDamage(err) {
		return r.resync(seq, limit)
	}
	return f, err
}

// step moves on to the next offset at which a frame could begin: where what has
// been read has the magic of one, or ends. It does not pass over anything beyond limit,
// where more may be written. Bytes returned earlier are released.
func (r *frameReader) step(limit int64) {
	defer r.release() // else there is no room for what comes next
	r.advance(frameAlign)
	// A reader is always at a multiple of frameAlign.
	for unread := r.buf[r.pos:]; len(unread) >= len(frameMagicBytes); unread = r.buf[r.pos:] {
		n := bytes.Index(unread, frameMagicBytes)
		if n < 0 {
			n = len(unread) - len(frameMagicBytes) + 1
		}
		r.advance(align(n))
		if n%frameAlign == 0 {
			return
		}
	}
	// No frame begins in what was never written.
	if from, _, err := r.file.Data(r.off); err == nil && from > r.off {
		r.seek(min(from&^(frameAlign-1), limit))
	}
}

// claimedSize is the size of the frame at the reader's offset by what its header
// says, whether that is whole or not; 0 when there is none of the reader's epoch.
func (r *frameReader) claimedSize(limit int64) int64 {
	if r.off >= limit || r.fill(frameFixed, limit) != nil {
		return 0
	}
	b := r.buf[r.pos:]
	if le.Uint32(b[atMagic:]) != frameMagic || le.Uint64(b[atEpoch:]) != r.epoch {
		return 0
	}
	return int64(le.Uint16(b[atHeaderLen:])) + int64(align(min(int(le.Uint32(b[atPayloadLen:])), MaxPayload)))
}

// nextHeader is peek that also insists on a frame that ends at or before limit and,
// if it has records, on a seq not below seq. Bytes returned earlier are released.
func (r *frameReader) nextHeader(seq uint64, limit int64) (frame, error) {
	r.release()
	f, err := r.peek(limit)
	switch {
	case err != nil:
		return frame{}, err
	case f.count > 0 && f.firstSeq < seq:
		return frame{}, errSequence
	case r.off+int64(f.size()) > limit:
		return frame{}, errShort
	}
	return f, nil
}

// wholeFrame is nextHeader that also insists on an unharmed payload.
func (r *frameReader) wholeFrame(seq uint64, limit int64) (frame, error) {
	f, err := r.nextHeader(seq, limit)
	if err == nil {
		err = r.fill(f.size(), limit)
	}
	if err != nil {
		return frame{}, err
	}
	if f, err = parseHeader(r.buf[r.pos:]); err != nil {
		return frame{}, err
	}
	return f, f.checkPayload(r.buf[r.pos:])
}

// bytes returns the next n bytes, which must have been read already.
func (r *frameReader) bytes(n int) []byte { return r.buf[r.pos : r.pos+n] }

// unread takes back the last n bytes that were returned, and take returns the
// next n again: between them the caller may release what came before.
func (r *frameReader) unread(n int) {
	r.pos -= n
	r.off -= int64(n)
}

func (r *frameReader) take(n int) []byte {
	b := r.bytes(n)
	r.advance(n)
	return b
}
