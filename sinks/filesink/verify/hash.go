package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// bufferSize is what is read at a time: enough to make the system call cheap, and
// small enough to be hashed while it is in the processor's cache.
const bufferSize = 256 << 10

// content is what a file was found to hold.
type content struct {
	size     int64
	hash     manifest.Hash // of the first bytes, as many as there were to be
	newlines uint64        // in the same
	counted  bool          // whether newlines were
	torn     bool          // they do not end with one
	sums     []manifest.Hash
}

// sumStep is how much of a file a reader has to keep back until it is known to be what
// was proven.
const sumStep = 1 << 20

// hashFile reads the first limit bytes of f with buffer. sums are the hashes of what comes
// before each multiple of sumStep, and of all.
func hashFile(ctx context.Context, f *os.File, limit int64, buffer []byte, p *Progress) (c content, err error) {
	// A wish only: without it the kernel reads less ahead.
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL)
	h := sha256.New()
	for c.size < limit {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		n, err := f.Read(buffer[:min(int64(len(buffer)), limit-c.size, sumStep-c.size%sumStep)])
		part := buffer[:n]
		h.Write(part)
		c.newlines += uint64(bytes.Count(part, newline))
		if n > 0 {
			c.torn = part[n-1] != '\n'
		}
		c.size += int64(n)
		if n > 0 && c.size%sumStep == 0 {
			c.sums = append(c.sums, manifest.Hash(h.Sum(nil)))
		}
		p.add(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return c, err
		}
	}
	h.Sum(c.hash[:0])
	if c.size%sumStep > 0 {
		c.sums = append(c.sums, c.hash)
	}
	return c, nil
}

var newline = []byte{'\n'}
