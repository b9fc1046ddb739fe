package streamsource

import (
	"bytes"
	"errors"
	"io"
)

const (
	// A connection that says little costs little: 1,024 of them 4 MiB.
	firstBuffer = 4 << 10
	// From here on a larger read no longer makes the reading cheaper.
	readBuffer = 256 << 10
	// Room beyond the limit into which the rest of an over-long line is read.
	skipRoom = 32 << 10
	// A line this many times the limit has no end: whatever comes, the place
	// where the next one begins is lost.
	endlessFactor = 16
)

// errEndless says that a line went on for too long to wait for its end.
var errEndless = errors.New("endless line")

// lineReader cuts a stream into whole lines, as many at a time as have arrived.
// It holds one buffer, which grows with what the producer sends: to readBuffer
// while reads fill it, and beyond only for a line that is longer.
//
//	        start      whole     end      len(buf)
//	  ......|a\nbc\nd\n|partial l|.........|
//	handed out                    free
type lineReader struct {
	src   io.Reader
	limit int // longest line, without its "\n" and a "\r" before it

	buf   []byte
	start int // what is before has been handed out
	whole int // buf[start:whole] are whole lines; there is no "\n" after them
	end   int

	// While an over-long line is read to its end, long is its length so far,
	// buf[:limit] its beginning, and last its latest byte. 0: in no such line.
	long int64
	last byte
}

func newLineReader(src io.Reader, limit int) *lineReader {
	return &lineReader{src: src, limit: limit}
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
// Only the partial line is ever copied.
func (r *lineReader) makeRoom() {
	partial := r.buf[r.start:r.end]
	size := len(r.buf)
	switch {
	case size == 0:
		size = firstBuffer
	case r.end == size && size < readBuffer: // the last read filled it
		size *= 2
	case len(partial) == size: // a line that may still be within the limit
		size = r.limit + skipRoom
	case size > readBuffer && len(partial) <= readBuffer/2: // that line is done
		size = readBuffer
	}
	switch {
	case size != len(r.buf):
		r.buf = make([]byte, size)
	case r.start == 0:
		return // a long line that comes in small pieces is not copied for each
	}
	r.start, r.whole, r.end = 0, 0, copy(r.buf, partial)
}

// beginLong turns the partial line into an over-long one.
func (r *lineReader) beginLong() {
	line := r.buf[r.start:r.end]
	r.long, r.last = int64(len(line)), line[len(line)-1]
	if len(r.buf) < r.limit+skipRoom {
		r.buf = make([]byte, r.limit+skipRoom)
	}
	copy(r.buf[:r.limit], line)
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
