package querycmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

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

func (p *filePart) read(_ context.Context, take func(stored) error) error {
	r, err := p.contents.Reader(p.file, p.progress)
	if err == nil {
		defer r.Close() // it was only read
		if err = p.readLines(r, take); err != nil {
			err = fmt.Errorf("%s: %w", p.file.Name, err)
		}
	}
	if p.file.Unfinished && (errors.Is(err, errTorn) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return nil // so does a file end that is being written
	}
	return err
}

var errTorn = errors.New("the file ends within a line")

// readLines calls take with the lines of r. A part of a line at the end is errTorn.
func (p *filePart) readLines(r io.Reader, take func(stored) error) error {
	in := bufio.NewReaderSize(r, 256<<10)
	for line := []byte(nil); ; {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return fmt.Errorf("a line is longer than %d bytes", maxLine)
		case err == nil:
			if err := take(stored{line: line[:len(line)-1], first: p.file.FirstTime, last: p.file.LastTime}); err != nil {
				return err
			}
			line = line[:0]
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return errTorn
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}
