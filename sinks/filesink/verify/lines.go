package verify

import (
	"bufio"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// isCompressed reports whether the name is that of a compressed file.
func isCompressed(name string) bool {
	return strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".zst")
}

// maxWindow bounds what a compressed file can make its reader keep. docket writes
// with much less.
const maxWindow = 8 << 20

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
