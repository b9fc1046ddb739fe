package follow

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"time"
)

// History is what a state has of the files of a log.
type History struct {
	// Seen is when the latest file was last seen at the path. Files that came after it
	// and went again before anybody looked were modified later.
	Seen time.Time `json:"seen"`
	// Beside are files with names of rotation that were beside the latest one and are other logs,
	// or older than the first.
	Beside []identity `json:"beside,omitempty"`
	// Files are those that were read: the one that is being read last, the others in
	// their order for as long as they can be found.
	Files []Contents `json:"files,omitempty"`
}

// Active is the file that is being read; nil: none is.
func (h *History) Active() *Contents {
	if n := len(h.Files); n > 0 && !h.Files[n-1].Done {
		return &h.Files[n-1]
	}
	return nil
}

// Without is the files but those of a generation.
func (h *History) Without(generation uint64) []Contents {
	return slices.DeleteFunc(slices.Clone(h.Files), func(c Contents) bool { return c.Generation == generation })
}

// With returns the history in which c is what is known of its generation.
func (h History) With(c Contents) History {
	h.Files = append(forget(h.Without(c.Generation), h.Seen), c)
	return h
}

const (
	// maxDone bounds the files that are remembered as read.
	maxDone = 4096
	// keptDone are remembered in any case, to know when they grow: those that were
	// modified long before the latest file was seen are not taken for new.
	keptDone = 16
)

// forget removes the files that need not be remembered: seen is when the latest file
// that was read, or is being read, was seen at the path.
func forget(done []Contents, seen time.Time) []Contents {
	n := 0
	for len(done)-n > keptDone && (len(done)-n > maxDone || done[n].Modified.Before(seen.Add(-2*clockSlack))) {
		n++
	}
	return slices.Delete(done, 0, n)
}

// Contents is one life of a file: from its first byte until it is truncated or
// replaced. The reader of the lines gives it its generation, producer and number.
type Contents struct {
	Generation uint64 `json:"generation"`
	Producer   string `json:"producer"`
	Real       string `json:"real"` // the name under which it was found
	identity
	Copied identity `json:"copied,omitzero"` // the copy of it that was read to its end
	Head   Window   `json:"head"`            // what it begins with
	Tail   Window   `json:"tail"`            // what is before Offset
	Offset int64    `json:"offset"`
	Number uint64   `json:"number"` // of the last record before Offset
	Done   bool     `json:"done,omitempty"`
	// Unrecognised says that nothing in it was of the format.
	Unrecognised bool `json:"unrecognised,omitempty"`
	// Modified is when a file that is done was last written to.
	Modified time.Time `json:"modified,omitzero"`
}

const (
	// headBytes of the beginning of a file tell its contents from others: a file that
	// was truncated and written again has the same inode.
	headBytes = 1 << 10
	// tailBytes before a position tell that what was read up to it is still there.
	tailBytes = 256
)

// taken is what a reader has of the contents of a file.
type taken struct {
	pos  int64  // what is before was read
	head []byte // what the contents begin with, up to headBytes
	tail []byte // what is before pos, up to tailBytes
}

// isIn reports whether what was read is in a file.
func (t taken) isIn(f io.ReaderAt) (bool, error) {
	begins, err := holds(f, t.head, 0)
	if err != nil || !begins {
		return false, err
	}
	return holds(f, t.tail, t.pos-int64(len(t.tail)))
}

// Window is a part of a file, known by its sum: nothing of a log is kept with a state.
type Window struct {
	Length int    `json:"length,omitempty"`
	Sum    string `json:"sum,omitempty"`
}

func windowOf(b []byte) Window {
	if len(b) == 0 {
		return Window{}
	}
	sum := sha256.Sum256(b)
	return Window{Length: len(b), Sum: hex.EncodeToString(sum[:16])}
}

// holds reports whether f has b at offset.
func holds(f io.ReaderAt, b []byte, offset int64) (bool, error) {
	var room [headBytes]byte
	got := room[:len(b)]
	n, err := f.ReadAt(got, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return n == len(b) && bytes.Equal(got, b), nil
}

// begins reports whether a file begins with head, or has only a part of it.
func begins(f io.ReaderAt, head []byte) bool {
	var room [headBytes]byte
	n, err := f.ReadAt(room[:len(head)], 0)
	return n > 0 && (err == nil || errors.Is(err, io.EOF)) && bytes.HasPrefix(head, room[:n])
}

// beginAlike reports whether the beginning of one file is that of the other, as far as
// both go.
func beginAlike(a, b io.ReaderAt) bool {
	var room [headBytes]byte
	n, err := a.ReadAt(room[:], 0)
	return (err == nil || errors.Is(err, io.EOF)) && begins(b, room[:n])
}

// part reads a part of f; nil if it is not all there.
func part(f io.ReaderAt, offset int64, length int) ([]byte, error) {
	b := make([]byte, length)
	n, err := f.ReadAt(b, offset)
	switch {
	case n == length:
		return b, nil
	case errors.Is(err, io.EOF):
		return nil, nil
	default:
		return nil, err
	}
}

// matches reports whether f, which has size bytes, has the contents of c, as far as
// they were read. A file that cannot be read has not.
func (c *Contents) matches(f *os.File, size int64) bool {
	if size < c.Offset || size < int64(c.Head.Length) || c.Offset < int64(c.Tail.Length) {
		return false
	}
	return c.Head.isIn(f, 0) && c.Tail.isIn(f, c.Offset-int64(c.Tail.Length))
}

func (w Window) isIn(f *os.File, offset int64) bool {
	if w.Length < 0 || w.Length > headBytes {
		return false // none that was made here
	}
	b, err := part(f, offset, w.Length)
	return err == nil && windowOf(b) == w
}
