package streamsource

import (
	"bytes"
	"errors"
	"io"
)

const (
	// A connection that says little costs little: 1,024 of them 4 MiB. Most
	// records fit, so that one that comes alone takes one read.
	firstBuffer = 4 << 10
	// Room beyond the limit into which the rest of an over-long line is read.
	skipRoom = 32 << 10
	// A line this many times the limit has no end: whatever comes, the place
	// where the next one begins is lost.
	endlessFactor = 16
)

// errEndless says that a line went on for too long to wait for its end.
var errEndless = errors.New("endless line")

// lineReader cuts a stream into whole lines, as many at a time as have arrived.
// It holds one buffer: a small one for a read that may wait for hours, a large one
// that is lent for a read that will not, and one of its own size for what there is
// of a long line. What is larger than the small one is taken from memory, and given
// back as soon as it is not needed.
//
//	        start      whole     end      len(buf)
//	  ......|a\nbc\nd\n|partial l|.........|
//	handed out                    free
type lineReader struct {
	src   io.Reader
	ready func() bool // whether a read of src would not wait; a guess will do
	limit int         // longest line, without its "\n" and a "\r" before it
	large *buffers
	mem   memory

	buf   []byte
	lent  bool   // buf is one of large
	held  int    // of mem, for buf: its size, unless it is the first
	first []byte // of firstBuffer bytes, while it is not buf; may be nil
	start int    // what is before has been handed out
	whole int    // buf[start:whole] are whole lines; there is no "\n" after them
	end   int

	// While an over-long line is read to its end, long is its length so far,
	// buf[:limit] its beginning, and last its latest byte. 0: in no such line.
	long int64
	last byte
}

func newLineReader(src io.Reader, ready func() bool, limit int, large *buffers, mem memory) *lineReader {
	return &lineReader{src: src, ready: ready, limit: limit, large: large, mem: mem}
}

// next returns whole lines, at least one, or if length is not 0 the first bytes
// of one line of that length, which is over the limit. They are the caller's to
// overwrite until the next call. It reads only when there is no line left.
//
// After an error of the stream or of memory next can be called again: nothing is lost
// that a deadline interrupted. After errEndless it cannot. See rest for what is left.
func (r *lineReader) next() (lines []byte, length int64, err error) {
	for r.long == 0 {
		if r.whole > r.start {
			return r.handOut()
		}
		// One byte over the limit may still be the "\r" of a line within it.
		if r.end-r.start > r.limit+1 {
			if err := r.beginLong(); err != nil {
				return nil, 0, err
			}
			break
		}
		if err := r.fill(); err != nil {
			return nil, 0, err
		}
	}
	return r.skip()
}

// rest returns what the stream ended with after its last newline: the line, or
// the first bytes of it if length is over the limit.
func (r *lineReader) rest() (line []byte, length int64) {
	if r.long > 0 {
		return r.buf[:r.limit], r.long
	}
	line = r.buf[r.start:r.end:r.end]
	return line[:min(len(line), r.limit+1)], int64(contentLength(line))
}

// handOut hands out the whole lines before the first over-long one, or that one.
func (r *lineReader) handOut() (lines []byte, length int64, err error) {
	lines = r.buf[r.start:r.whole:r.whole]
	if len(lines) <= r.limit+1 { // too short to hide an over-long line
		r.start = r.whole
		return lines, 0, nil
	}
	n := 0
	for n < len(lines) {
		size := bytes.IndexByte(lines[n:], '\n')
		if contentLength(lines[n:n+size]) > r.limit {
			break
		}
		n += size + 1
	}
	if n > 0 {
		r.start += n
		return lines[:n:n], 0, nil
	}
	size := bytes.IndexByte(lines, '\n')
	if r.endless(int64(size)) {
		r.end = r.start + size
		return nil, 0, errors.Join(errEndless, r.beginLong())
	}
	r.start += size + 1
	return lines[:r.limit:r.limit], int64(contentLength(lines[:size])), nil
}

// fill reads once, behind what there is of a line.
func (r *lineReader) fill() error {
	if err := r.makeRoom(); err != nil {
		return err
	}
	n, err := r.read(r.buf[r.end:])
	if i := bytes.LastIndexByte(r.buf[r.end:r.end+n], '\n'); i >= 0 {
		r.whole = r.end + i + 1
		if r.held > 0 {
			r.mem.Renew()
		}
	}
	r.end += n
	if n > 0 {
		return nil // an error comes again
	}
	return err
}

// read reads, and says so to whom the memory is from.
func (r *lineReader) read(into []byte) (int, error) {
	if r.held == 0 {
		return r.src.Read(into)
	}
	r.mem.Await(true)
	defer r.mem.Await(false)
	return r.src.Read(into)
}

// makeRoom moves the partial line to the front of a buffer of the right size.
// Only the partial line is ever copied, and only after about as many bytes as it
// has were read: a producer cannot buy a long copy with a short write.
func (r *lineReader) makeRoom() error {
	partial := r.buf[r.start:r.end]
	filled, grown := r.end == len(r.buf), min(2*len(r.buf), r.limit+skipRoom)
	mayWait := !filled || !r.ready() // the next read
	switch {
	case len(r.buf) == 0:
		return r.own(firstBuffer, partial)
	case !mayWait && !r.lent && len(partial) <= readBuffer/2 && r.borrow(partial):
		return nil
	case filled && len(partial) > len(r.buf)/2 && len(r.buf) < grown: // a long line
		return r.own(grown, partial)
	case r.held > 0 && (mayWait && (r.lent || r.fit(partial) == firstBuffer) || !r.lent && len(r.buf) > 4*r.fit(partial)):
		return r.own(r.fit(partial), partial)
	}
	if r.start > 0 {
		r.start, r.whole, r.end = 0, 0, copy(r.buf, partial)
	}
	return nil
}

// fit is the size of a buffer in which partial leaves as much room as it takes.
func (r *lineReader) fit(partial []byte) int {
	return max(firstBuffer, min(2*len(partial), r.limit+skipRoom))
}

// own moves the partial line into a buffer of size bytes that is not lent. Its error is
// that of memory.
func (r *lineReader) own(size int, partial []byte) error {
	if size == firstBuffer {
		buf := r.first
		if buf == nil {
			buf = make([]byte, firstBuffer)
		}
		r.replace(buf, 0, partial)
		return nil
	}
	if size > r.held {
		if err := r.mem.Take(size); err != nil {
			return err
		}
		r.replace(make([]byte, size), size, partial)
		return nil
	}
	kept := size // of what is held already
	r.held -= kept
	r.replace(make([]byte, size), size, partial)
	return nil
}

// borrow moves the partial line into a buffer that is lent, if there is memory for one.
func (r *lineReader) borrow(partial []byte) bool {
	if !r.mem.Try(readBuffer) {
		return false
	}
	r.replace(r.large.lend(), readBuffer, partial)
	r.lent = true
	return true
}

// replace makes buf the buffer, for which held bytes of memory are held, with the
// partial line at its front.
func (r *lineReader) replace(buf []byte, held int, partial []byte) {
	n := copy(buf, partial)
	old, first := r.buf, r.first
	r.release()
	r.buf, r.held, r.end = buf, held, n
	switch {
	case held == 0:
	case len(old) == firstBuffer:
		r.first = old // it will soon be wanted again
	default:
		r.first = first
	}
}

// release lets go of the buffers and of all that is in them.
func (r *lineReader) release() {
	if r.lent {
		r.large.giveBack(r.buf)
	}
	r.mem.Give(r.held)
	r.buf, r.lent, r.held, r.first = nil, false, 0, nil
	r.start, r.whole, r.end = 0, 0, 0
}

// beginLong turns the partial line into an over-long one. Its error is that of memory.
func (r *lineReader) beginLong() error {
	line := r.buf[r.start:r.end]
	long, last := int64(len(line)), line[len(line)-1]
	if size := r.limit + skipRoom; r.lent || len(r.buf) < size {
		if err := r.own(size, line[:r.limit]); err != nil {
			return err
		}
	} else {
		copy(r.buf[:r.limit], line)
	}
	r.long, r.last = long, last
	r.start, r.whole, r.end = r.limit, r.limit, r.limit
	return nil
}

// skip reads to the end of an over-long line and keeps only its beginning.
func (r *lineReader) skip() (prefix []byte, length int64, err error) {
	for {
		n, err := r.read(r.buf[r.limit:])
		fresh := r.buf[r.limit : r.limit+n]
		size := bytes.IndexByte(fresh, '\n')
		if size < 0 {
			size = n
		}
		if size > 0 {
			r.long, r.last = r.long+int64(size), fresh[size-1]
		}
		switch {
		case r.endless(r.long):
			return nil, 0, errEndless
		case size < n:
			length = r.long
			if r.last == '\r' {
				length--
			}
			r.long = 0
			r.start, r.end = r.limit+size+1, r.limit+n
			r.whole = max(r.start, r.limit+bytes.LastIndexByte(fresh, '\n')+1)
			return r.buf[:r.limit:r.limit], length, nil
		case n == 0 && err != nil:
			return nil, 0, err
		}
	}
}

func (r *lineReader) endless(length int64) bool {
	return length > endlessFactor*int64(r.limit)
}

// contentLength is the length of a line without the "\r" at its end.
func contentLength(line []byte) int {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return n - 1
	}
	return len(line)
}
