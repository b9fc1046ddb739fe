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

	number uint64 // of the first line of the block that is being read; kept where only some lines count
}

// partsOf are the files of c.
func partsOf(c *verify.Contents, p *verify.Progress) (parts []part) {
	for i := range c.Files {
		parts = append(parts, &filePart{contents: c, file: &c.Files[i], progress: p})
	}
	return parts
}

func (p *filePart) read(_ context.Context, submit func(*block) bool) {
	r, err := p.contents.Reader(p.file, p.progress)
	if err == nil {
		if err = p.readLines(r, submit); err != nil {
			err = fmt.Errorf("%s: %w", p.file.Name, err)
		}
		r.Close() // it was only read
	}
	if err == nil || errors.Is(err, errEnough) || p.isUnfinished(err) {
		return
	}
	b := newBlock()
	if errors.Is(err, verify.ErrRemoved) {
		b.report.notes = []string{err.Error()}
	} else {
		b.report.problems = []string{err.Error()}
	}
	submit(b)
}

var (
	// errEnough ends the reading where the search has ended.
	errEnough = errors.New("enough")
	errTorn   = errors.New("the file ends within a line")
)

// isUnfinished reports whether err is how a file ends that is being written.
func (p *filePart) isUnfinished(err error) bool {
	return p.file.Unaccepted && (errors.Is(err, errTorn) || errors.Is(err, io.ErrUnexpectedEOF))
}

// readLines submits the lines of r. A part of a line at the end is errTorn.
func (p *filePart) readLines(r io.Reader, submit func(*block) bool) error {
	b := newBlock()
	for {
		if len(b.lines) > maxLine {
			return fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
		if len(b.lines) == cap(b.lines) {
			b.lines = slices.Grow(b.lines, len(b.lines))
		}
		n, err := r.Read(b.lines[len(b.lines):cap(b.lines)])
		b.lines = b.lines[:len(b.lines)+n]
		if err == nil && len(b.lines) < cap(b.lines) && len(b.lines) <= maxLine {
			continue
		}
		end := bytes.LastIndexByte(b.lines, '\n') + 1
		if end == 0 && err == nil {
			continue // a long line
		}
		next := newBlock()
		next.lines = append(next.lines, b.lines[end:]...)
		b.lines = b.lines[:end]
		if !p.submit(b, submit) {
			return errEnough
		}
		b = next
		switch {
		case errors.Is(err, io.EOF) && len(b.lines) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return errTorn
		case err != nil:
			return err
		}
	}
}

// submit says of b what is known of its records.
func (p *filePart) submit(b *block, submit func(*block) bool) bool {
	b.first, b.last = p.file.FirstTime, p.file.LastTime
	if lines := p.file.Lines; len(lines) > 0 {
		first := p.number
		p.number += uint64(bytes.Count(b.lines, []byte{'\n'}))
		b.counts = func(line uint64) bool {
			return slices.ContainsFunc(lines, func(l verify.Lines) bool { return l.From <= first+line && first+line < l.To })
		}
	}
	return submit(b)
}
