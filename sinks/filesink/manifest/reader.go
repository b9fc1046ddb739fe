package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/docket-export/docket/internal/rooted"
)

// Reader reads the lines of a manifest, a line at a time. It may be read while the
// sink adds to the file.
type Reader struct {
	r      *bufio.Reader
	number uint64
	end    int64  // offset behind the last whole line
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
	r.end += int64(len(text)) + 1
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

// End is the offset after the line read last.
func (r *Reader) End() int64 { return r.end }

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

// End is where a manifest ends.
type End struct {
	Chain Chain // of what is there, without a key
	Line  *Line // the last whole line; nil when there is none
	Size  int64 // up to and with its newline: where the next line goes
	Torn  int64 // bytes behind that, to be cut before anything is added
}

// Last reads only the end of the manifest in dir, so its cost does not grow. A
// missing manifest has the zero End. An invalid last line is an error, with the End
// before it: a line with a newline counts as whole, unless the writer knows better.
func Last(dir string) (End, error) {
	f, err := rooted.At(dir).Join(FileName).Open()
	if errors.Is(err, fs.ErrNotExist) {
		return End{}, nil
	}
	if err != nil {
		return End{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return End{}, err
	}
	return last(f, info.Size())
}

// last finds the two last newlines in the size bytes of r.
func last(r io.ReaderAt, size int64) (End, error) {
	// The last whole line and the torn one behind it, each as long as can be.
	from := max(0, size-2*(MaxLine+1))
	tail := make([]byte, size-from)
	if _, err := r.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return End{}, fmt.Errorf("manifest: read its end: %w", err)
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	end := End{Size: from + int64(whole), Torn: int64(len(tail) - whole)}
	if whole == 0 {
		if from > 0 {
			return end, fmt.Errorf("manifest: no line in its last %d bytes", len(tail))
		}
		return end, nil
	}
	begin := bytes.LastIndexByte(tail[:whole-1], '\n') + 1
	if whole-begin > MaxLine+1 {
		return end, fmt.Errorf("manifest: the last line is longer than %d bytes", MaxLine)
	}
	line, err := Decode(bytes.Clone(tail[begin : whole-1]))
	if err != nil {
		end.Size, end.Torn = from+int64(begin), size-from-int64(begin)
		return end, fmt.Errorf("manifest: last line: %w", err)
	}
	end.Line, end.Chain.Previous = line, line.Hash
	return end, nil
}
