package deadletter

import (
	"bufio"
	"errors"
	"io"
)

// hole is a part of a log that is no line, [from, to).
type hole struct{ from, to int64 }

// scanned is the content of a log.
type scanned struct {
	index index
	holes []hole // apart and in order, without the tail
	// end is where the log ends. The rest up to size is a torn tail.
	end, size int64
	// sure is the highest offset that a line calls durable: the lines from there
	// on may be in the page cache alone.
	sure int64
	// unknown is a version that a line says the log has, other than ours; nil: ours.
	unknown *uint64
}

// scan reads a log. Its error is that the file cannot be read; damage is none.
func scan(f io.ReaderAt, size int64) (scanned, error) {
	s, err := scanUpTo(f, size)
	if err != nil {
		return s, err
	}
	s.size = size
	for i, h := range s.holes {
		if h.from < s.sure {
			continue // a line that was written later says that it was there once
		}
		if h.to < size { // lines behind the tear were taken in
			if s, err = scanUpTo(f, h.from); err != nil {
				return s, err
			}
			s.size = size
		} else {
			s.holes = s.holes[:i]
		}
		s.end = h.from
		break
	}
	return s, nil
}

// scanUpTo reads the first size bytes of a log.
func scanUpTo(f io.ReaderAt, size int64) (scanned, error) {
	s := scanned{end: size}
	lines := lineReader{r: bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 256<<10)}
	for {
		at := lines.offset
		text, err := lines.next()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		l, err := parseLine(text)
		if text == nil || err != nil || l.after > at {
			s.addHole(hole{at, lines.offset})
			continue
		}
		s.apply(l, at)
	}
}

func (s *scanned) addHole(h hole) {
	if n := len(s.holes); n > 0 && s.holes[n-1].to == h.from {
		s.holes[n-1].to = h.to
		return
	}
	s.holes = append(s.holes, h)
}

// apply applies the line at an offset.
func (s *scanned) apply(l line, at int64) {
	s.sure = max(s.sure, l.after)
	switch l.word {
	case wordLog:
		if l.version != version {
			found := l.version // of the line nothing else is kept
			s.unknown = &found
		}
	case wordRedrive:
		s.index.redrive(l.spans)
	case wordRemove:
		s.index.remove(l.spans)
	default:
		s.index.put(l.entry(at))
	}
}

// lineReader cuts a file into lines.
type lineReader struct {
	r      *bufio.Reader
	offset int64 // of the next line
	buf    []byte
}

// next returns the next line, without its newline; it is valid until the next
// call. It is nil for bytes that are no line: longer than any, or without a newline.
func (l *lineReader) next() ([]byte, error) {
	l.buf = l.buf[:0]
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		l.offset += int64(len(part))
		whole := err == nil
		if whole && len(l.buf) == 0 && !tooLong {
			return part[:len(part)-1], nil
		}
		if tooLong = tooLong || len(l.buf)+len(part) > maxLine; !tooLong {
			l.buf = append(l.buf, part...)
		}
		switch {
		case whole && tooLong:
			return nil, nil
		case whole:
			return l.buf[:len(l.buf)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(l.buf) > 0 || tooLong):
			return nil, nil
		default:
			return nil, err
		}
	}
}
