package httpsink

import (
	"fmt"

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

func (c *Config) compressionRules() []config.Rule {
	level := func(compression string, highest int) config.Rule {
		return config.Between("compressionLevel", 0, highest).When(config.Is("compression", compression)).
			Says(fmt.Sprintf("must be between 1 and %d for %s, or 0 for its default", highest, compression))
	}
	return []config.Rule{
		config.OneOf("compression", compressNone, compressGzip, compressZstd),
		config.OneOf("compression", compressNone, compressGzip).When(config.Is("encoding", withoutZstd...)).
			Says("must be none or gzip with encoding: " + c.Encoding + ", whose receivers do not read zstd"),
		config.Forbidden("compressionLevel", "has no effect without compression: set compression to gzip or zstd").
			When(config.Is("compression", compressNone)),
		level(compressGzip, gzip.BestCompression),
		level(compressZstd, maxZstdLevel),
	}
}

// compressor compresses one body after the other and keeps its tables between
// them. Calls do not overlap.
type compressor interface {
	// compress appends src, compressed, to dst.
	compress(dst, src []byte) ([]byte, error)
}

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
		return &gzipCompressor{w: w}, nil
	case compressZstd:
		speed := zstd.SpeedDefault
		if level > 0 {
			speed = zstd.EncoderLevelFromZstd(level)
		}
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, fmt.Errorf("http.compressionLevel: %w", err)
		}
		return zstdCompressor{w}, nil
	}
	return nil, nil
}

// gzipCompressor is the io.Writer that its own gzip.Writer writes to.
type gzipCompressor struct {
	w   *gzip.Writer
	dst []byte
}

func (c *gzipCompressor) compress(dst, src []byte) ([]byte, error) {
	c.dst = dst
	c.w.Reset(c)
	if _, err := c.w.Write(src); err != nil {
		return nil, err
	}
	if err := c.w.Close(); err != nil {
		return nil, err
	}
	return c.dst, nil
}

func (c *gzipCompressor) Write(b []byte) (int, error) {
	c.dst = append(c.dst, b...)
	return len(b), nil
}

type zstdCompressor struct{ w *zstd.Encoder }

func (c zstdCompressor) compress(dst, src []byte) ([]byte, error) {
	return c.w.EncodeAll(src, dst), nil
}
