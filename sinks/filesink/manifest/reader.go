package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/docket-export/docket/internal/fileversion"
)

// Reader reads the lines of a manifest, a line at a time. It may be read while the
// sink adds to the file.
type Reader struct {
	r      *bufio.Reader
	number uint64
	part   []byte // of a line whose newline is not there yet
	failed error  // ends the reading
}

// NewReader returns a Reader of r from its beginning.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next line, and io.EOF at the present end: once lines have been
// added, Next continues with them. An invalid line is a *LineError. It ends the
// reading, as an error of reading does.
func (r *Reader) Next() (*Line, error) {
	if r.failed != nil {
		return nil, r.failed
	}
	text, err := r.text()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	var line *Line
	if err == nil {
		r.number++
		if line, err = Decode(text); err != nil {
			err = &LineError{Number: r.number, Err: err}
		}
	}
	if err != nil {
		r.failed = err
		return nil, err
	}
	return line, nil
}

// text returns the next whole line, in memory of its own.
func (r *Reader) text() ([]byte, error) {
	for {
		part, err := r.r.ReadSlice('\n')
		if len(r.part)+len(part) > MaxLine+1 {
			return nil, &LineError{Number: r.number + 1, Err: fmt.Errorf("longer than %d bytes", MaxLine)}
		}
		r.part = append(r.part, part...)
		switch {
		case err == nil:
			text := r.part[:len(r.part)-1]
			r.part = nil
			return text, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// Number is the number of the line read last, from 1.
func (r *Reader) Number() uint64 { return r.number }

// Torn is how many bytes stand behind the last whole line, once Next has returned
// io.EOF: a line that is being written, or was when the power failed.
func (r *Reader) Torn() int { return len(r.part) }

// LineError is an invalid line.
type LineError struct {
	Number uint64 // from 1
	Err    error
}

func (e *LineError) Error() string { return fmt.Sprintf("manifest line %d: %v", e.Number, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// Read yields the lines of a manifest up to the last whole one, and ends after the
// first error.
func Read(r io.Reader) iter.Seq2[*Line, error] {
	return func(yield func(*Line, error) bool) {
		lines := NewReader(r)
		for {
			line, err := lines.Next()
			if errors.Is(err, io.EOF) || !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// CheckVersion returns a *fileversion.Error if the last whole line in the size bytes of a manifest
// is of an unknown version. Its cost does not grow with the manifest.
func CheckVersion(r io.ReaderAt, size int64) error {
	from := max(0, size-2*(MaxLine+1)) // a torn line may be behind
	tail := make([]byte, size-from)
	if _, err := r.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	end := bytes.LastIndexByte(tail, '\n')
	if end < 0 {
		return nil
	}
	_, err := Decode(tail[bytes.LastIndexByte(tail[:end], '\n')+1 : end])
	if unknown, ok := errors.AsType[*fileversion.Error](err); ok {
		return unknown
	}
	return nil
}
