package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// job is a file that is being read.
type job struct {
	file *listed
	from uint64 // the first seq that it covers
	done chan struct{}
	// Set when done is closed.
	found content
	err   error
}

// start has the file of an entry read, and waits where too many are.
func (v *verifier) start(f *listed, from uint64) error {
	if err := v.readPending(cap(v.buffers) - 1); err != nil {
		return err
	}
	if v.report.Break != nil {
		f.entry.Gaps = manifest.Gaps{}
		return nil // the first break is known, but for files missing before it
	}
	j := &job{file: f, from: from, done: make(chan struct{})}
	v.pending = append(v.pending, j)
	go func() {
		defer close(j.done)
		buffer := <-v.buffers
		if buffer == nil {
			buffer = make([]byte, bufferSize)
		}
		j.found, j.err = v.read(f.entry, buffer)
		v.buffers <- buffer
	}()
	return nil
}

// read reads the file of e.
func (v *verifier) read(e *manifest.Entry, buffer []byte) (c content, err error) {
	f, info, err := open(v.root, e.Name)
	if err != nil {
		return content{}, err
	}
	defer f.Close()
	if c, err = hashFile(v.ctx, f, e.Bytes, buffer, v.Progress); err != nil {
		return c, err
	}
	if c.size == e.Bytes {
		c.size = max(c.size, info.Size())
	}
	c.counted = !isCompressed(e.Name)
	if c.counted || !v.Deep || c.hash != e.SHA256 {
		return c, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return c, err
	}
	c.counted, c.torn = true, false
	if c.newlines, err = countLines(e.Name, readerOf(v.ctx, f), e.Records); err != nil {
		return c, contentErrorOf(err)
	}
	return c, nil
}

// contentError is a file whose bytes are those of the manifest, but no records.
type contentError struct{ err error }

func (e *contentError) Error() string { return e.err.Error() }

func (e *contentError) Unwrap() error { return e.err }

// contentErrorOf is err as a contentError, unless the file could not be read at all.
func contentErrorOf(err error) error {
	_, isDisk := errors.AsType[*fs.PathError](err)
	if isDisk || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &contentError{err}
}

// contextReader ends with the context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func readerOf(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

// Read implements io.Reader.
func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// readPending waits until at most left files are being read.
func (v *verifier) readPending(left int) error {
	for len(v.pending) > left {
		j := v.pending[0]
		v.pending = v.pending[1:]
		<-j.done
		if err := v.result(j); err != nil {
			return err
		}
	}
	return nil
}

// wait ends when no file is being read any more.
func (v *verifier) wait() {
	for _, j := range v.pending {
		<-j.done
	}
}

// result takes note of what was found of a file.
func (v *verifier) result(j *job) error {
	f := j.file
	defer func() { f.entry.Gaps = manifest.Gaps{} }()
	unreadable, isUnreadable := errors.AsType[*contentError](j.err)
	switch {
	case errors.Is(j.err, fs.ErrNotExist):
		f.missing = f.breakOf(FileMissing, "a file of "+bytesText(f.entry.Bytes), "no file")
	case errors.Is(j.err, errNotAFile):
		f.missing = f.breakOf(NotAFile, "a regular file", j.err.Error())
	case isUnreadable:
		v.broken(f.breakOf(WrongCount, countText(f.entry.Records, "record"), unreadable.Error()))
	case j.err != nil:
		return j.err
	default:
		if b := j.judge(); b != nil {
			v.broken(b)
			return nil
		}
		f.proven = true
		if !f.removed {
			v.count(f.entry)
		}
	}
	return nil
}

func (v *verifier) count(e *manifest.Entry) {
	v.report.Files++
	v.report.Bytes += e.Bytes
	v.report.Records += e.Records
}

func (v *verifier) uncount(e *manifest.Entry) {
	v.report.Files--
	v.report.Bytes -= e.Bytes
	v.report.Records -= e.Records
}

// judge compares a file with its entry.
func (j *job) judge() *Break {
	f, e, c := j.file, j.file.entry, j.found
	var b *Break
	switch {
	case c.size < e.Bytes:
		b = f.breakOf(FileTruncated, bytesText(e.Bytes), bytesText(c.size))
		if c.counted && c.newlines < e.Records {
			j.locate(b, c.newlines+1)
			b.Found += fmt.Sprintf(", without the end of line %d", b.Record)
		}
	case c.size > e.Bytes && c.hash == e.SHA256:
		b = f.breakOf(FileExtended, bytesText(e.Bytes), bytesText(c.size)+", and the first ones are as expected")
	case c.size > e.Bytes:
		b = f.breakOf(FileChanged, hashText(e.SHA256, e.Bytes), bytesText(c.size)+", and the first ones are different")
	case c.hash != e.SHA256:
		b = f.breakOf(FileChanged, hashText(e.SHA256, e.Bytes), hashText(c.hash, c.size))
	case c.counted && (c.newlines != e.Records || c.torn):
		return f.breakOf(WrongCount, countText(e.Records, "line"), countText(c.newlines, "line")+" that end with a newline")
	default:
		return nil
	}
	b.size = c.size
	return b
}

// locate says of a break that it begins with a line of the file.
func (j *job) locate(b *Break, line uint64) {
	b.Record = line
	gaps := j.file.entry.Gaps
	b.FirstSeq = gaps.Next(j.from)
	for range line - 1 {
		b.FirstSeq = gaps.Next(b.FirstSeq + 1)
	}
}

// explain adds to a break what takes another look at the export.
func (v *verifier) explain(b *Break) error {
	if err := v.readPending(0); err != nil {
		return err
	}
	if b.size == 0 {
		return nil
	}
	other, err := v.swapped(b)
	if err != nil {
		return err
	}
	if other != "" {
		b.Kind, b.Record, b.Found = FileSwapped, 0, "the content of "+other
		return nil
	}
	if v.Reference == nil || b.Kind != FileChanged {
		return nil
	}
	return v.pinpoint(b)
}

// swapped returns the name of another file that should have the content of the one
// that b is about.
func (v *verifier) swapped(b *Break) (name string, err error) {
	var found *manifest.Hash
	for line, err := range v.again() {
		if err != nil {
			return "", err
		}
		e := line.Entry
		if e == nil || e.Name == b.File || e.Bytes != b.size {
			continue
		}
		if found == nil {
			if found, err = v.hashOf(b.File, b.size); err != nil {
				return "", err
			}
		}
		if e.SHA256 == *found {
			return e.Name, nil
		}
	}
	return "", nil
}

func (v *verifier) hashOf(name string, size int64) (*manifest.Hash, error) {
	f, _, err := open(v.root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := hashFile(v.ctx, f, size, make([]byte, bufferSize), nil)
	return &c.hash, err
}

func hashText(h manifest.Hash, size int64) string {
	return fmt.Sprintf("SHA-256 %s of %s", h, bytesText(size))
}

func bytesText(n int64) string { return countText(uint64(n), "byte") }

// countText is "1 record" or "7 records".
func countText(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatUint(n, 10) + " " + noun + "s"
}
