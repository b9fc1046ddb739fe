package httpsink

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/docket-export/docket/config"
)

// The choices of Config.Compression. Except none, they are the names in
// Content-Encoding.
const (
	compressNone = "none"
	compressGzip = "gzip"
	compressZstd = "zstd"
)

// maxZstdLevel is that of zstd's command line; the library has four, and takes the
// nearest.
const maxZstdLevel = 22

// withoutZstd are the encodings whose receivers would refuse every batch in zstd,
// and some as if its records were at fault.
var withoutZstd = []string{"splunkHEC", "elasticsearchBulk", "loki"}

func (c *Config) validateCompression(p *config.Problems) {
	level := func(highest int) {
		p.Refuse(c.CompressionLevel < 0 || c.CompressionLevel > highest, "compressionLevel",
			"must be between 1 and %d for %s, or 0 for its default", highest, c.Compression)
	}
	switch c.Compression {
	case compressNone:
		p.Refuse(c.CompressionLevel != 0, "compressionLevel", "has no effect without compression: set compression to gzip or zstd")
	case compressGzip:
		level(gzip.BestCompression)
	case compressZstd:
		p.Refuse(slices.Contains(withoutZstd, c.Encoding), "compression",
			"must be none or gzip with encoding: %s, whose receivers do not read zstd", c.Encoding)
		level(maxZstdLevel)
	default:
		p.Check("compression", config.Choice(c.Compression, compressNone, compressGzip, compressZstd))
	}
}

// compressor compresses one body. Calls do not overlap.
type compressor func(body []byte) ([]byte, error)

// newCompressor returns nil for no compression.
func newCompressor(compression string, level int) (compressor, error) {
	switch compression {
	case compressGzip:
		if level == 0 {
			level = gzip.DefaultCompression
		}
		w, err := gzip.NewWriterLevel(nil, level)
		if err != nil {
			return nil, fmt.Errorf("http.compressionLevel: %w", err)
		}
		return func(body []byte) ([]byte, error) {
			var to bytes.Buffer
			w.Reset(&to)
			if _, err := w.Write(body); err != nil {
				return nil, err
			}
			err := w.Close()
			return to.Bytes(), err
		}, nil
	case compressZstd:
		speed := zstd.SpeedDefault
		if level > 0 {
			speed = zstd.EncoderLevelFromZstd(level)
		}
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, fmt.Errorf("http.compressionLevel: %w", err)
		}
		return func(body []byte) ([]byte, error) { return w.EncodeAll(body, nil), nil }, nil
	}
	return nil, nil
}
