// Package lines reads files that have one record a line.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Max is the longest line that send reads. It is the highest limits.maxRecordBytes of a
// configuration, so no docket accepts a longer line.
const Max = 16 << 20

// ErrTooLong is the error of Reader.Next for a line longer than Max.
var ErrTooLong = errors.New("longer than 16Mi")

// Reader reads the lines of a file and skips blank ones.
type Reader struct {
	r      *bufio.Reader
	Number uint64 // of the line read last, blank ones counted, from 1
	line   []byte // reused by Next
}

// NewReader returns a Reader of the lines of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 256<<10)}
}

// Next returns the next line that is not blank, without its newline and a "\r" before it.
// The line is valid until the next call. At the end of the input the error is io.EOF. After
// ErrTooLong the next call returns the line that follows.
func (l *Reader) Next() ([]byte, error) {
	for {
		line, err := l.whole()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
}

// whole returns the next line, blank or not. A last line needs no newline.
func (l *Reader) whole() ([]byte, error) {
	l.line = l.line[:0]
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		// Two bytes more than a line may have: they may be its "\r\n".
		if tooLong = tooLong || len(l.line)+len(part) > Max+2; !tooLong {
			l.line = append(l.line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		ended := len(l.line) > 0 || tooLong
		if err != nil && !(err == io.EOF && ended) {
			return nil, err
		}
		l.Number++
		line := bytes.TrimSuffix(bytes.TrimSuffix(l.line, []byte("\n")), []byte("\r"))
		if tooLong || len(line) > Max {
			return nil, ErrTooLong
		}
		return line, nil
	}
}
