package follow

import (
	"bytes"
	"errors"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// minHole is the shortest hole that is worth being skipped.
const minHole = 256 << 10

// Reader reads the contents of one file, from where an earlier reading ended to their end,
// whatever becomes of the file's name. One goroutine uses it.
type Reader struct {
	f      *Follower
	g      *generation
	pos    int64  // what is before was read
	head   []byte // what the contents begin with, up to headBytes, as far as it was read
	tail   []byte // what is before pos, up to tailBytes
	mark   []byte // what is before offset
	offset int64  // behind the last whole line that Read has returned
	now    position
	over   bool // as of the last Read: the writer has moved on for long enough
}

func newReader(f *Follower, g *generation) *Reader {
	r := &Reader{f: f, g: g}
	if g.known != nil {
		r.pos, r.offset = g.known.Offset, g.known.Offset
	}
	return r
}

// Known is what an earlier reading knows of the contents; nil: nothing.
func (r *Reader) Known() *Contents { return r.g.known }

// Path is where the file was the latest of its log.
func (r *Reader) Path() string { return r.g.real }

// Inode is that of the file.
func (r *Reader) Inode() uint64 { return r.g.Inode }

// Name is that of the file which the last Read has read, or Path where its contents are gone.
func (r *Reader) Name() string {
	if r.now.file == nil {
		return r.Path()
	}
	return r.now.file.Name()
}

// Due is when the contents are over, if nothing is written to them until then; zero: the
// writer was not seen to move on.
func (r *Reader) Due() time.Time { return r.now.over }

// IsOver reports whether the contents were over when the last Read began. If that Read
// found nothing, it has met their end.
func (r *Reader) IsOver() bool { return r.over }

// IsMoved reports whether what comes next is not the same log, as with the next life of a
// container.
func (r *Reader) IsMoved() bool { return r.now.moved }

// Unread is how much of the contents was seen and not read.
func (r *Reader) Unread() int64 { return r.now.size - r.pos }

// Head is the window of the beginning, as far as it was read.
func (r *Reader) Head() Window { return windowOf(r.head) }

// Begins is how the contents begin, as far as they were read, up to headBytes.
func (r *Reader) Begins() []byte { return r.head }

// FirstLine is the sum of the first line, as far as the beginning was read.
func (r *Reader) FirstLine() string {
	first, _, _ := bytes.Cut(r.head, []byte("\n"))
	return windowOf(first).Sum
}

// ErrMoved says that the file was truncated: the contents are nowhere any more.
var ErrMoved = errors.New("the file has other contents now")

// Read returns the next bytes, which are in buf. io.EOF: there are none for now. ErrMoved:
// there will be none. isBetween says that no line has begun: a hole before the next is
// skipped.
func (r *Reader) Read(buf []byte, isBetween bool) ([]byte, error) {
	r.now = r.f.position(r.g)
	r.over = !r.now.over.IsZero() && !time.Now().Before(r.now.over)
	if r.now.file == nil {
		return nil, ErrMoved
	}
	n, err := r.readOnce(buf, isBetween)
	if errors.Is(err, ErrMoved) {
		r.f.differs(r.g, r.now.file)
	}
	r.note(buf[:n])
	return buf[:n], err
}

func (r *Reader) readOnce(buf []byte, isBetween bool) (n int, err error) {
	if err := r.recall(); err != nil {
		return 0, err
	}
	if isBetween && bytes.HasSuffix(r.tail, []byte{0}) {
		r.skipHole()
	}
	n, err = r.now.file.ReadAt(buf, r.pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	// After the read, so that nothing is taken for a line that begins within one.
	if err := r.check(); err != nil {
		return 0, err
	}
	if n > 0 {
		return n, nil // an end comes again
	}
	return 0, err
}

// skipHole goes on where a hole ends, which reads as NUL bytes: it may be as long as the
// file was before it was truncated.
func (r *Reader) skipHole() {
	end, err := r.now.file.Seek(r.pos, unix.SEEK_DATA)
	if err != nil || end-r.pos < minHole {
		return // it is read like anything else
	}
	var nul [headBytes]byte
	r.head = append(r.head, nul[len(r.head):]...)
	r.tail = nul[:tailBytes]
	r.pos = end
}

// check reports with ErrMoved that what was read is no longer in the file or, before
// anything was, what was seen there.
func (r *Reader) check() error {
	head := r.head
	if r.pos == 0 {
		head = r.now.peek
	}
	begins, err := holds(r.now.file, head, 0)
	if err != nil {
		return err
	}
	goesOn, err := holds(r.now.file, r.tail, r.pos-int64(len(r.tail)))
	if err == nil && !(begins && goesOn) {
		err = ErrMoved
	}
	return err
}

// recall reads what is before the position at which an earlier reading ended.
func (r *Reader) recall() (err error) {
	if r.pos == 0 || r.head != nil {
		return nil
	}
	length := int(min(r.pos, tailBytes))
	if r.tail, err = part(r.now.file, r.pos-int64(length), length); err != nil {
		return err
	}
	if r.head, err = part(r.now.file, 0, int(min(r.pos, headBytes))); err != nil {
		return err
	}
	if r.head == nil || r.tail == nil {
		return ErrMoved
	}
	r.mark = bytes.Clone(r.tail)
	return nil
}

// note takes down what was read at pos.
func (r *Reader) note(data []byte) {
	if missing := headBytes - len(r.head); missing > 0 {
		r.head = append(r.head, data[:min(len(data), missing)]...)
	}
	if whole := bytes.LastIndexByte(data, '\n') + 1; whole > 0 {
		r.mark = lastBytes(r.mark[:0], r.tail, data[:whole])
		r.offset = r.pos + int64(whole)
	}
	r.tail = lastBytes(nil, r.tail, data)
	r.pos += int64(len(data))
}

// lastBytes appends to dst the last tailBytes of a and b in a row.
func lastBytes(dst, a, b []byte) []byte {
	b = b[max(0, len(b)-tailBytes):]
	a = a[max(0, len(a)+len(b)-tailBytes):]
	return append(append(dst, a...), b...)
}

// EndLine says that what was read behind the last newline is a line as well.
func (r *Reader) EndLine() { r.offset, r.mark = r.pos, r.tail }

// Describe returns c with the place behind the last whole line.
func (r *Reader) Describe(c Contents) Contents {
	c.identity, c.Done, c.Offset = r.g.identity, false, r.offset
	if r.head != nil || r.pos == 0 { // else nothing was read yet, and c has them
		c.Head, c.Tail = windowOf(r.head), windowOf(r.mark)
	}
	if c.Real == "" {
		c.Real = r.g.real
	}
	return c
}

// Finish lets go of the file, which was read, and returns c as that of contents that are
// done.
func (r *Reader) Finish(c Contents) Contents {
	c.Done, c.Modified = true, time.Now()
	if r.now.file != nil {
		if info, err := examine(r.now.file); err == nil {
			c.Modified = info.modified
		}
	}
	r.f.finish(r.g, c)
	return c
}
