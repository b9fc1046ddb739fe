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
}

// hashFile reads the first limit bytes of f with buffer.
func hashFile(ctx context.Context, f *os.File, limit int64, buffer []byte, p *Progress) (c content, err error) {
	// A wish only: without it the kernel reads less ahead.
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL)
	h := sha256.New()
	for c.size < limit {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		n, err := f.Read(buffer[:min(int64(len(buffer)), limit-c.size)])
		part := buffer[:n]
		h.Write(part)
		c.newlines += uint64(bytes.Count(part, newline))
		if n > 0 {
			c.torn = part[n-1] != '\n'
		}
		c.size += int64(n)
		p.add(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return c, err
		}
	}
	h.Sum(c.hash[:0])
	return c, nil
}

var newline = []byte{'\n'}
