package verify

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// isCompressed reports whether the name is that of a compressed file.
func isCompressed(name string) bool {
	return strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".zst")
}

// maxLine bounds a line of a file: the longest record that a configuration can let
// in, and its stamp.
const maxLine = 17 << 20

// maxWindow bounds what a compressed file can make its reader keep. docket writes
// with much less.
const maxWindow = 8 << 20

// errLineTooLong says that a file holds what no sink has written.
var errLineTooLong = fmt.Errorf("a line of more than %d bytes", maxLine)

// lineReader reads the lines of a file, compressed or not.
type lineReader struct {
	r     *bufio.Reader
	close func()
	line  []byte
}

// newLineReader returns one for the content r of a file called name. It is to be
// closed; r is the caller's.
func newLineReader(name string, r io.Reader) (*lineReader, error) {
	r, stop, err := decompress(name, r)
	if err != nil {
		return nil, err
	}
	return &lineReader{r: bufio.NewReaderSize(r, bufferSize), close: stop}, nil
}

// decompress returns the lines in the content r of a file called name. stop is to be
// called when no more is read.
func decompress(name string, r io.Reader) (lines io.Reader, stop func(), err error) {
	switch {
	case strings.HasSuffix(name, ".gz"):
		z, err := gzip.NewReader(bufio.NewReaderSize(r, 64<<10))
		if err != nil {
			return nil, nil, err
		}
		return z, func() {}, nil
	case strings.HasSuffix(name, ".zst"):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}

// next returns the next line without its newline, valid until the next call. At the
// end it is io.EOF; io.ErrUnexpectedEOF when the last line has no newline.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if err == nil {
		return line[:len(line)-1], nil
	}
	l.line = append(l.line[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(l.line) > maxLine {
			return nil, errLineTooLong
		}
		line, err = l.r.ReadSlice('\n')
		l.line = append(l.line, line...)
	}
	switch {
	case err == nil:
		return l.line[:len(l.line)-1], nil
	case errors.Is(err, io.EOF) && len(l.line) > 0:
		return nil, io.ErrUnexpectedEOF
	}
	return nil, err
}

// countLines counts the lines of a file up to one more than limit.
func countLines(name string, r io.Reader, limit uint64) (n uint64, err error) {
	l, err := newLineReader(name, r)
	if err != nil {
		return 0, err
	}
	defer l.close()
	for ; n <= limit; n++ {
		if _, err := l.next(); err != nil {
			if errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
		}
	}
	return n, nil
}
