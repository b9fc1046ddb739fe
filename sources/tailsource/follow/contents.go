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
	// Followed says that the directory of the log was looked at once: what has come since and
	// is not in Beside is to be read.
	Followed bool `json:"followed,omitempty"`
	// Beside are files with names of rotation that are other logs, older than the first, or
	// read long ago.
	Beside []identity `json:"beside,omitempty"`
	// Files are those that were read: the one that is being read last, the others in
	// their order for as long as they may grow.
	Files []Contents `json:"files,omitempty"`
}

// Active is the file that is being read; nil: none is.
func (h *History) Active() *Contents {
	if n := len(h.Files); n > 0 && !h.Files[n-1].Done {
		return &h.Files[n-1]
	}
	return nil
}

// With returns the history in which c is what is known of its generation.
func (h History) With(c Contents) History {
	h.Files = append(without(h.Files, c.Generation), c)
	return h
}

// without is a copy of files without those of a generation.
func without(files []Contents, generation uint64) []Contents {
	return slices.DeleteFunc(slices.Clone(files), func(c Contents) bool { return c.Generation == generation })
}

// Contents is one life of a file: from its first byte until it is truncated or
// replaced. The reader of the lines gives it its generation, producer and number.
type Contents struct {
	Generation uint64 `json:"generation"`
	Producer   string `json:"producer"`
	Real       string `json:"real"` // the name under which it was found
	identity
	Head   Window `json:"head"` // what it begins with
	Tail   Window `json:"tail"` // what is before Offset
	Offset int64  `json:"offset"`
	Number uint64 `json:"number"` // of the last record before Offset
	Done   bool   `json:"done,omitempty"`
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
	got, err := part(f, offset, len(b))
	return err == nil && bytes.Equal(got, b), err
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
