package runs

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

const (
	// blockSize is how much is read at a time: enough for the cost of a read to vanish
	// beside that of the bytes, and little enough to stay in the processor's cache.
	blockSize = 256 << 10
	// maxPrefix is how much is kept of a line that is too long.
	maxPrefix = 1 << 10
)

// line is one line of a file, without its end ("\n" or "\r\n").
type line struct {
	text  []byte // valid until the next line is asked for
	whole bool   // it was ended by "\n"
	// length is that of a line which is too long, of which text is the beginning; else 0.
	length int64
}

// lineReader cuts what it reads into lines. It holds some four times max, or a
// block, however long a line is.
type lineReader struct {
	r   io.Reader
	max int
	buf []byte
	pos int // of the next line in buf
	err error
}

// newLineReader reads r, which has size bytes, as lines of at most maxBytes.
func newLineReader(r io.Reader, size int64, maxBytes int) *lineReader {
	return &lineReader{r: r, max: maxBytes, buf: make([]byte, 0, min(blockSize, size+1))}
}

// next returns the next line, or io.EOF, or why it could not be read.
func (l *lineReader) next() (line, error) {
	seen := 0 // bytes of the line that have no "\n"
	for {
		rest := l.buf[l.pos:]
		if n := bytes.IndexByte(rest[seen:], '\n'); n >= 0 {
			l.pos += seen + n + 1
			return l.line(rest[:seen+n], true), nil
		}
		if seen = len(rest); seen > l.max+1 { // one more byte may be the "\r" of its end
			return l.skip()
		}
		if l.err != nil {
			if seen == 0 || !errors.Is(l.err, io.EOF) {
				return line{}, l.err
			}
			l.pos += seen
			return l.line(rest, false), nil
		}
		l.fill()
	}
}

func (l *lineReader) line(text []byte, whole bool) line {
	text = bytes.TrimSuffix(text, []byte{'\r'})
	if len(text) > l.max {
		return line{text: text[:min(len(text), maxPrefix)], whole: whole, length: int64(len(text))}
	}
	return line{text: text, whole: whole}
}

// fill reads behind the bytes that are not used yet, which it moves to the front. Should
// they take more than half of the buffer it grows: a read is worth its cost then.
func (l *lineReader) fill() {
	n := copy(l.buf, l.buf[l.pos:])
	l.buf, l.pos = l.buf[:n], 0
	if n > cap(l.buf)/2 {
		l.buf = slices.Grow(l.buf, cap(l.buf))
	}
	var read int
	read, l.err = l.r.Read(l.buf[n:cap(l.buf)])
	l.buf = l.buf[:n+read]
}

// skip steps over a line that is too long to be held.
func (l *lineReader) skip() (line, error) {
	prefix := slices.Clone(l.buf[l.pos:][:min(len(l.buf)-l.pos, maxPrefix)])
	length := int64(0)
	for {
		rest := l.buf[l.pos:]
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			l.pos += n + 1
			return line{text: prefix, whole: true, length: length + int64(n)}, nil
		}
		length += int64(len(rest))
		l.pos = len(l.buf)
		if l.err != nil {
			if !errors.Is(l.err, io.EOF) {
				return line{}, l.err
			}
			return line{text: prefix, length: length}, nil
		}
		l.fill()
	}
}
