package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/docket-export/docket/internal/disk"
)

// ReadSize is how much a reader asks of the file at once: large enough to run at
// the speed of the disk, small enough to keep one per sink.
const ReadSize = 1 << 20

// headerReadSize is how much one asks for that wants headers alone.
const headerReadSize = 4 << 10

// readFullAt fills p from off, or returns what there is with io.EOF.
func readFullAt(f io.ReaderAt, p []byte, off int64) (int, error) {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return n, nil
	}
	return n, err
}

// Reader reads the frames of one segment in order.
//
// The payloads it returns stay valid until release, so that a batch can span
// frames without a copy.
type Reader struct {
	file  disk.File
	epoch uint64

	// buf[pos:] are the bytes of the file from offset off on that have been
	// read and not yet returned. buf[held:pos] belongs to the caller until
	// release, and buf[:held] to nobody.
	buf  []byte
	held int
	pos  int
	Off  int64
	// Capacity is how large buf is made: what the caller wants to hold at once.
	Capacity int
}

// ErrNoRoom says that the next frame does not fit behind what the caller still
// holds: it must release first.
var ErrNoRoom = errors.New("reader: no room before release")

// Open points the reader at the first frame of a segment. The buffer is kept.
func (r *Reader) Open(file disk.File, epoch uint64) {
	r.file, r.epoch = file, epoch
	r.MoveTo(HeaderSize)
}

// openHeaders is Open and MoveTo for a reader of the headers alone between off and end.
func (r *Reader) openHeaders(file disk.File, epoch uint64, off, end int64) {
	if from, to, err := file.Data(off); err == nil && from < end { // what was never written need not be there
		file.Prefetch(from, min(to, end))
	}
	r.buf = make([]byte, 0, headerReadSize)
	r.Open(file, epoch)
	r.MoveTo(off)
}

// MoveTo continues at offset off. Bytes returned earlier are released.
func (r *Reader) MoveTo(off int64) {
	r.buf, r.held, r.pos, r.Off = r.buf[:0], 0, 0, off
}

// Release lets the reader reuse the bytes it has returned. It moves nothing before it
// needs the room. A buffer that grew for one large frame is freed once all of it was
// returned.
func (r *Reader) Release() {
	r.held = r.pos
	if r.pos == len(r.buf) && cap(r.buf) > 2*r.size() {
		r.buf, r.held, r.pos = nil, 0, 0
	}
}

// size is that of a buffer, unless one frame needs more.
func (r *Reader) size() int { return max(ReadSize, r.Capacity) }

// Compact moves bytes that were read but not returned to the front of the buffer,
// if less than room is left behind them. The next batch can then be as large as the
// one before. The caller must hold no bytes.
func (r *Reader) Compact(room int) {
	if r.pos > 0 && cap(r.buf)-r.pos < room && r.held == r.pos {
		r.buf, r.held, r.pos = append(r.buf[:0], r.buf[r.pos:]...), 0, 0
	}
}

// Next returns the frame at the reader's offset, which must end at or before
// limit, and the bytes of its payload. io.EOF: the offset is at limit.
// ErrNoRoom: release and call again. Any other error, unless it comes from the
// file, means damage at the reader's offset, and leaves the reader there.
func (r *Reader) Next(limit int64) (Frame, []byte, error) {
	if r.Off >= limit {
		return Frame{}, nil, io.EOF
	}
	f, err := r.header(limit)
	if err != nil {
		return Frame{}, nil, err
	}
	if err := r.fill(f.Size(), limit); err != nil {
		return Frame{}, nil, err
	}
	b := r.buf[r.pos:]
	if err := f.CheckPayload(b); err != nil {
		return Frame{}, nil, err
	}
	// fill may have moved the buffer that the header's names alias.
	if f, err = ParseHeader(b); err != nil {
		return Frame{}, nil, err
	}
	payload := b[f.HeaderLen : f.HeaderLen+f.PayloadLen]
	r.advance(f.Size())
	return f, payload, nil
}

// Skip passes the frame at the reader's offset without looking at its payload.
func (r *Reader) Skip(f *Frame) {
	r.advance(f.Size())
}

// Peek returns the header of the frame at the reader's offset, as next does,
// and stays there.
func (r *Reader) Peek(limit int64) (Frame, error) {
	if r.Off >= limit {
		return Frame{}, io.EOF
	}
	return r.header(limit)
}

func (r *Reader) header(limit int64) (Frame, error) {
	if err := r.fill(frameFixed, limit); err != nil {
		return Frame{}, err
	}
	f, err := ParseHeader(r.buf[r.pos:])
	if errors.Is(err, errShort) {
		if err := r.fill(int(le.Uint16(r.buf[r.pos+atHeaderLen:])), limit); err != nil {
			return Frame{}, err
		}
		f, err = ParseHeader(r.buf[r.pos:])
	}
	if err != nil {
		return Frame{}, err
	}
	if f.Epoch != r.epoch {
		return Frame{}, errStale
	}
	return f, nil
}

// advance moves on by n bytes, which may lie beyond what is buffered.
func (r *Reader) advance(n int) {
	r.Off += int64(n)
	if r.pos+n <= len(r.buf) {
		r.pos += n
		return
	}
	r.pos = len(r.buf) // only skip gets here: fill reads on at off
}

// fill makes at least n unread bytes available, reading up to limit.
func (r *Reader) fill(n int, limit int64) error {
	have := len(r.buf) - r.pos
	if have >= n {
		return nil
	}
	if r.Off+int64(n) > limit {
		return errShort
	}
	if r.pos+n > cap(r.buf) {
		if r.held < r.pos {
			return ErrNoRoom
		}
		into := r.buf[:0]
		if n > cap(into) {
			into = make([]byte, 0, max(r.size(), n))
		}
		r.buf, r.held, r.pos = append(into, r.buf[r.pos:]...), 0, 0
	}
	from := r.Off + int64(have)
	room := min(int64(cap(r.buf)-len(r.buf)), limit-from)
	if cap(r.buf) > 2*r.size() { // no more than the large frame: the buffer is let go of behind it
		room = min(room, int64(n-have))
	}
	got, err := readFullAt(r.file, r.buf[len(r.buf):len(r.buf)+int(room)], from)
	r.buf = r.buf[:len(r.buf)+got]
	if len(r.buf)-r.pos >= n {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return errShort // the file is shorter than it was when limit was taken
	}
	return fmt.Errorf("read at %d: %w", from, err)
}

// IsDamage reports whether err means that the bytes are not a frame, rather than
// that they could not be read.
func IsDamage(err error) bool {
	for _, d := range []error{errShort, errNoFrame, errVersion, errFrameHeader, errPayload, errStale, errSequence} {
		if errors.Is(err, d) {
			return true
		}
	}
	return false
}

// Resync moves the reader to the first whole frame at or after its offset that
// begins at seq or later, or has no records, and returns its header. io.EOF: there
// is none before limit.
func (r *Reader) Resync(seq uint64, limit int64) (Frame, error) {
	for {
		f, err := r.wholeFrame(seq, limit)
		if err == nil || !IsDamage(err) {
			return f, err
		}
		r.Step(limit)
	}
}

// resyncHeader is Resync that takes a frame at the reader's offset by its header alone.
func (r *Reader) resyncHeader(seq uint64, limit int64) (Frame, error) {
	f, err := r.nextHeader(seq, limit)
	if IsDamage(err) {
		return r.Resync(seq, limit)
	}
	return f, err
}

// Step moves to the next offset at which a frame could begin: to the next magic of a
// frame in the bytes read, or to their end. It skips nothing beyond limit, where more
// may be written. Bytes returned earlier are released.
func (r *Reader) Step(limit int64) {
	defer r.Release() // else there is no room for what comes next
	r.advance(align)
	// A reader is always at a multiple of align.
	for unread := r.buf[r.pos:]; len(unread) >= len(frameMagicBytes); unread = r.buf[r.pos:] {
		n := bytes.Index(unread, frameMagicBytes)
		if n < 0 {
			n = len(unread) - len(frameMagicBytes) + 1
		}
		r.advance(aligned(n))
		if n%align == 0 {
			return
		}
	}
	// No frame begins in what was never written.
	if from, _, err := r.file.Data(r.Off); err == nil && from > r.Off {
		r.MoveTo(min(from&^(align-1), limit))
	}
}

// claimedSize is the size of the frame at the reader's offset by what its header
// says, whether that is whole or not; 0 when there is none of the reader's epoch.
func (r *Reader) claimedSize(limit int64) int64 {
	if r.Off >= limit || r.fill(frameFixed, limit) != nil {
		return 0
	}
	b := r.buf[r.pos:]
	if le.Uint32(b[atMagic:]) != frameMagic || le.Uint64(b[atEpoch:]) != r.epoch {
		return 0
	}
	return int64(le.Uint16(b[atHeaderLen:])) + int64(aligned(min(int(le.Uint32(b[atPayloadLen:])), maxPayload)))
}

// nextHeader is Peek that also insists on a frame that ends at or before limit and,
// if it has records, on a seq not below seq. Bytes returned earlier are released.
func (r *Reader) nextHeader(seq uint64, limit int64) (Frame, error) {
	r.Release()
	f, err := r.Peek(limit)
	switch {
	case err != nil:
		return Frame{}, err
	case f.Count > 0 && f.FirstSeq < seq:
		return Frame{}, errSequence
	case r.Off+int64(f.Size()) > limit:
		return Frame{}, errShort
	}
	return f, nil
}

// wholeFrame is nextHeader that also insists on an unharmed payload.
func (r *Reader) wholeFrame(seq uint64, limit int64) (Frame, error) {
	f, err := r.nextHeader(seq, limit)
	if err == nil {
		err = r.fill(f.Size(), limit)
	}
	if err != nil {
		return Frame{}, err
	}
	if f, err = ParseHeader(r.buf[r.pos:]); err != nil {
		return Frame{}, err
	}
	return f, f.CheckPayload(r.buf[r.pos:])
}

// bytes returns the next n bytes, which must have been read already.
func (r *Reader) bytes(n int) []byte { return r.buf[r.pos : r.pos+n] }

// Unread takes back the last n bytes that were returned, and Reread returns the
// next n again: between them the caller may release what came before.
func (r *Reader) Unread(n int) {
	r.pos -= n
	r.Off -= int64(n)
}

// Reread returns the next n bytes again, which were taken back.
func (r *Reader) Reread(n int) []byte {
	b := r.bytes(n)
	r.advance(n)
	return b
}
