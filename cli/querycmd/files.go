package querycmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/docket-export/docket/sinks/filesink/verify"
)

// maxLine bounds a record: the longest that a configuration can let in, and its stamp.
const maxLine = 17 << 20

// filePart is a file of an export.
type filePart struct {
	contents *verify.Contents
	file     *verify.File
	progress *verify.Progress
}

// partsOf are the files of c.
func partsOf(c *verify.Contents, p *verify.Progress) (parts []part) {
	for i := range c.Files {
		parts = append(parts, &filePart{contents: c, file: &c.Files[i], progress: p})
	}
	return parts
}

func (p *filePart) read(_ context.Context, take func(*block) error) error {
	r, err := p.contents.Reader(p.file, p.progress)
	if err != nil {
		if p.isUnfinished(err) {
			return nil
		}
		return err
	}
	defer r.Close() // it was only read
	if err := p.readLines(r, take); err != nil && !p.isUnfinished(err) {
		return fmt.Errorf("%s: %w", p.file.Name, err)
	}
	return nil
}

var errTorn = errors.New("the file ends within a line")

// isUnfinished reports whether err is how a file ends that is being written.
func (p *filePart) isUnfinished(err error) bool {
	return p.file.Unfinished && (errors.Is(err, errTorn) || errors.Is(err, io.ErrUnexpectedEOF))
}

// readLines calls take with the lines of r. A part of a line at the end is errTorn.
func (p *filePart) readLines(r io.Reader, take func(*block) error) error {
	lines := make([]byte, 0, blockSize)
	for {
		var n int
		var err error
		for err == nil && len(lines) < cap(lines) {
			n, err = r.Read(lines[len(lines):cap(lines)])
			lines = lines[:len(lines)+n]
		}
		end := bytes.LastIndexByte(lines, '\n') + 1
		if end > 0 {
			if err := take(&block{lines: lines[:end], first: p.file.FirstTime, last: p.file.LastTime}); err != nil {
				return err
			}
			lines = append(lines[:0], lines[end:]...)
		}
		switch {
		case len(lines) > maxLine:
			return fmt.Errorf("a line is longer than %d bytes", maxLine)
		case errors.Is(err, io.EOF) && len(lines) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return errTorn
		case err != nil:
			return err
		case len(lines) == cap(lines):
			lines = slices.Grow(lines, len(lines)) // a long line
		}
	}
}
