package filesink

import (
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/docket-export/docket/sinks"
)

// Compression says what the records of a file are compressed with.
type Compression string

// The choices of Config.Compress. They are named as what decompresses them.
const (
	None Compression = "none"
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

func (c Compression) form() form {
	switch c {
	case Gzip:
		return gzipped
	case Zstd:
		return zstandard
	default:
		return plain
	}
}

// form is how records lie in a file. The numbers stand in positions.
type form uint8

const (
	plain form = iota
	gzipped
	zstandard
	forms // how many there are
)

// suffix is what the names of files in this form end with.
func (f form) suffix() string {
	return [forms]string{plain: "", gzipped: ".gz", zstandard: ".zst"}[f]
}

// zstdWindow is how far back a repetition is found. More finds nothing more in
// records of 1 KB, and takes memory for each file sink and each reader.
const zstdWindow = 256 << 10

// encoder makes payloads. Its memory is used again and again.
type encoder struct {
	form  form
	gzip  *gzip.Writer
	zstd  *zstd.Encoder
	frame frame
}

// newEncoder makes an encoder for files of form f, of the fastest level there is: on
// records of 1 KB the others take several times as long and save 1 % at best.
func newEncoder(f form) (*encoder, error) {
	e := &encoder{form: f}
	var err error
	switch f {
	case gzipped:
		e.gzip, err = gzip.NewWriterLevel(nil, gzip.BestSpeed)
	case zstandard:
		e.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(zstdWindow))
	}
	if err != nil {
		return nil, fmt.Errorf("make an encoder for *%s: %w", f.suffix(), err)
	}
	return e, nil
}

// encode returns items as they are to lie on disk: lines, or one whole gzip member
// or zstd frame of lines, so that a file that is cut back between two payloads
// is sound. The payload is valid until the next call, and as long as items.
func (e *encoder) encode(items []sinks.Item) (payload, error) {
	raw := rawLinesOf(items)
	switch e.form {
	case gzipped:
		e.gzip.Reset(e.frame.empty())
		return e.compress(raw, e.gzip)
	case zstandard:
		e.zstd.Reset(e.frame.empty())
		return e.compress(raw, e.zstd)
	default:
		return raw, nil
	}
}

func (e *encoder) compress(raw rawLines, w io.WriteCloser) (payload, error) {
	if err := raw.writeTo(w); err != nil {
		return nil, fmt.Errorf("compress a batch: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress a batch: %w", err)
	}
	return &e.frame, nil
}

// payload is what a batch adds to a file.
type payload interface {
	size() int64
	// writeTo may be called more than once, and at the same time.
	writeTo(w io.Writer) error
}

// rawLines are a payload that is not compressed. The records are not copied.
type rawLines struct {
	items []sinks.Item
	bytes int64
}

func rawLinesOf(items []sinks.Item) rawLines {
	l := rawLines{items: items, bytes: int64(len(items))}
	for i := range items {
		l.bytes += int64(len(items[i].Record))
	}
	return l
}

func (l rawLines) size() int64 { return l.bytes }

var newline = []byte{'\n'}

func (l rawLines) writeTo(w io.Writer) error {
	for i := range l.items {
		if _, err := w.Write(l.items[i].Record); err != nil {
			return err
		}
		if _, err := w.Write(newline); err != nil {
			return err
		}
	}
	return nil
}

// frame is a payload that is compressed.
type frame struct{ bytes []byte }

func (f *frame) empty() *frame {
	f.bytes = f.bytes[:0]
	return f
}

// Write takes what an encoder has made.
func (f *frame) Write(p []byte) (int, error) {
	f.bytes = append(f.bytes, p...)
	return len(p), nil
}

func (f *frame) size() int64 { return int64(len(f.bytes)) }

func (f *frame) writeTo(w io.Writer) error {
	_, err := w.Write(f.bytes)
	return err
}
