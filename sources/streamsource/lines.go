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
// of a long line.
//
//	        start      whole     end      len(buf)
//	  ......|a\nbc\nd\n|partial l|.........|
//	handed out                    free
type lineReader struct {
	src   io.Reader
	ready func() bool // whether a read of src would not wait; a guess will do
	limit int         // longest line, without its "\n" and a "\r" before it
	large *buffers

	buf   []byte
	lent  bool   // buf is one of large
	first []byte // of firstBuffer bytes, while it is not buf; may be nil
	start int    // what is before has been handed out
	whole int    // buf[start:whole] are whole lines; there is no "\n" after them
	end   int

	// While an over-long line is read to its end, long is its length so far,
	// buf[:limit] its beginning, and last its latest byte. 0: in no such line.
	long int64
	last byte
}

func newLineReader(src io.Reader, ready func() bool, limit int, large *buffers) *lineReader {
	return &lineReader{src: src, ready: ready, limit: limit, large: large}
}

// next returns whole lines, at least one, or if length is not 0 the first bytes
// of one line of that length, which is over the limit. They are the caller's to
// overwrite until the next call. It reads only when there is no line left.
//
// After an error of the stream next can be called again: nothing is lost that a
// deadline interrupted. After errEndless it cannot. See rest for what is left.
func (r *lineReader) next() (lines []byte, length int64, err error) {
	for r.long == 0 {
		if r.whole > r.start {
			return r.take()
		}
		// One byte over the limit may still be the "\r" of a line within it.
		if r.end-r.start > r.limit+1 {
			r.beginLong()
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

// take hands out the whole lines before the first over-long one, or that one.
func (r *lineReader) take() (lines []byte, length int64, err error) {
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
		r.beginLong()
		return nil, 0, errEndless
	}
	r.start += size + 1
	return lines[:r.limit:r.limit], int64(contentLength(lines[:size])), nil
}

// fill reads once, behind what there is of a line.
func (r *lineReader) fill() error {
	r.makeRoom()
	n, err := r.src.Read(r.buf[r.end:])
	if i := bytes.LastIndexByte(r.buf[r.end:r.end+n], '\n'); i >= 0 {
		r.whole = r.end + i + 1
	}
	r.end += n
	if n > 0 {
		return nil // an error comes again
	}
	return err
}

// makeRoom moves the partial line to the front of a buffer of the right size.
// Only the partial line is ever copied, and only after about as many bytes as it
// has were read: a producer cannot buy a long copy with a short write.
func (r *lineReader) makeRoom() {
	partial := r.buf[r.start:r.end]
	filled, grown := r.end == len(r.buf), min(2*len(r.buf), r.limit+skipRoom)
	switch {
	case len(r.buf) == 0:
		r.own(firstBuffer, partial)
		return
	case filled && len(partial) > len(r.buf)/2 && len(r.buf) < grown: // a long line
		r.own(grown, partial)
		return
	case !filled || !r.ready(): // the next read may wait
		if r.lent || len(r.buf) > 4*r.fit(partial) {
			r.own(r.fit(partial), partial)
			return
		}
	case !r.lent && len(partial) <= readBuffer/2 && r.borrow(partial):
		return
	}
	if r.start > 0 {
		r.start, r.whole, r.end = 0, 0, copy(r.buf, partial)
	}
}

// fit is the size of a buffer in which partial leaves as much room as it takes.
func (r *lineReader) fit(partial []byte) int {
	return max(firstBuffer, min(2*len(partial), r.limit+skipRoom))
}

// own moves the partial line into a buffer of size bytes that is not lent.
func (r *lineReader) own(size int, partial []byte) {
	buf := r.first
	if size != firstBuffer || buf == nil {
		buf = make([]byte, size)
	}
	r.replace(buf, false, partial)
}

// borrow moves the partial line into a buffer that is lent, if one is to be had.
func (r *lineReader) borrow(partial []byte) bool {
	buf := r.large.lend()
	if buf == nil {
		return false
	}
	r.replace(buf, true, partial)
	return true
}

// replace makes buf the buffer, with the partial line at its front.
func (r *lineReader) replace(buf []byte, lent bool, partial []byte) {
	n := copy(buf, partial)
	old := r.buf
	r.release()
	r.buf, r.lent, r.end = buf, lent, n
	if lent && len(old) == firstBuffer {
		r.first = old // it will soon be wanted again
	}
}

// release lets go of the buffers and of all that is in them.
func (r *lineReader) release() {
	if r.lent {
		r.large.giveBack(r.buf)
	}
	r.buf, r.lent, r.first = nil, false, nil
	r.start, r.whole, r.end = 0, 0, 0
}

// beginLong turns the partial line into an over-long one.
func (r *lineReader) beginLong() {
	line := r.buf[r.start:r.end]
	long, last := int64(len(line)), line[len(line)-1]
	if size := r.limit + skipRoom; r.lent || len(r.buf) < size {
		r.own(size, line[:r.limit])
	} else {
		copy(r.buf[:r.limit], line)
	}
	r.long, r.last = long, last
	r.start, r.whole, r.end = r.limit, r.limit, r.limit
}

// skip reads to the end of an over-long line and keeps only its beginning.
func (r *lineReader) skip() (prefix []byte, length int64, err error) {
	for {
		n, err := r.src.Read(r.buf[r.limit:])
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
