package runs

import (
	"bytes"
	"errors"
	"io"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/linecut"
)

// blockSize is how much is read at a time: enough for the cost of a read to vanish
// beside that of the bytes, and little enough to stay in the processor's cache.
const blockSize = 256 << 10

// line is one line of a file, without its end ("\n" or "\r\n").
type line struct {
	text  []byte
	whole bool // it was ended by "\n"
	// length is that of a line which is too long, of which text is the beginning; else 0.
	length int64
}

// torn reports a last line that was cut off before its end. A record may lack its "\n".
func (l line) torn() bool {
	if l.whole || l.length > 0 {
		return !l.whole
	}
	return !isRecord(l.text)
}

// eachLine calls take with each line of r that is not blank, of at most maxBytes. The line is
// valid until take returns.
func eachLine(r io.Reader, maxBytes int, take func(line) error) error {
	cut := linecut.Cutter{Limit: maxBytes + len("\r")}
	one := func(text []byte, length int64, whole bool) error {
		l := line{text: sources.WithoutMark(bytes.TrimSuffix(text, []byte{'\r'})), whole: whole, length: length}
		if length == 0 && len(l.text) > maxBytes {
			l.length, l.text = int64(len(l.text)), l.text[:min(len(l.text), linecut.MaxPrefix)]
		}
		if l.length == 0 && isBlank(l.text) {
			return nil
		}
		return take(l)
	}
	for buf := make([]byte, blockSize); ; {
		n, err := r.Read(buf)
		if cutErr := cut.Cut(buf[:n], func(text []byte, length int64) error { return one(text, length, true) }); cutErr != nil {
			return cutErr
		}
		if errors.Is(err, io.EOF) {
			if cut.IsBetween() {
				return nil
			}
			text, length := cut.Rest()
			return one(text, length, false)
		}
		if err != nil {
			return &fileError{err}
		}
	}
}
