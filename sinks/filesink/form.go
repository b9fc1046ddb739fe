package filesink

import (
	"bufio"
	"errors"
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

// encoder writes batches. Its memory is used again and again.
type encoder struct {
	form   form
	gzip   *gzip.Writer
	zstd   *zstd.Encoder
	buffer *bufio.Writer
}

// newEncoder makes an encoder for files of form f, of the fastest level there is: on
// records of 1 KB the others take several times as long and save 1 % at best.
func newEncoder(f form) (*encoder, error) {
	e := &encoder{form: f, buffer: bufio.NewWriterSize(nil, bufferSize)}
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

// encode writes items as they are to lie on disk: lines, or one whole gzip member or zstd
// frame of lines, so that a file that is cut back between two batches is sound.
func (e *encoder) encode(items []sinks.Item, w io.Writer) error {
	e.buffer.Reset(w)
	var err error
	switch e.form {
	case gzipped:
		e.gzip.Reset(e.buffer)
		err = errors.Join(writeLines(items, e.gzip), e.gzip.Close())
	case zstandard:
		e.zstd.Reset(e.buffer)
		err = errors.Join(writeLines(items, e.zstd), e.zstd.Close())
	default:
		err = writeLines(items, e.buffer)
	}
	if err != nil {
		return err
	}
	return e.buffer.Flush()
}

var newline = []byte{'\n'}

func writeLines(items []sinks.Item, w io.Writer) error {
	for i := range items {
		if _, err := w.Write(items[i].Record); err != nil {
			return err
		}
		if _, err := w.Write(newline); err != nil {
			return err
		}
	}
	return nil
}

// lineBytes is how much the lines of items have.
func lineBytes(items []sinks.Item) int64 {
	n := int64(len(items))
	for i := range items {
		n += int64(len(items[i].Record))
	}
	return n
}
