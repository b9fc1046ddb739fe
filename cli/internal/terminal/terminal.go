// Package terminal writes for people: a terminal that no record can steer, a console with a
// line of progress, and the forms of numbers and times in texts.
package terminal

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal, and so a person reads it.
func IsTerminal(w any) bool {
	f := fileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// Width returns the columns of the terminal w, or 0 if w is not a terminal.
func Width(w any) int {
	f := fileOf(w)
	if f == nil {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// fileOf is the file that w writes to, nil when it is not known.
func fileOf(w any) *os.File {
	switch w := w.(type) {
	case *os.File:
		return w
	case *screen:
		return w.file
	}
	return nil
}

// Output returns f. For a terminal it returns a screen, so that text of other programs
// cannot control the terminal. A pipe and a file get every byte unchanged.
func Output(f *os.File) io.Writer {
	if !IsTerminal(f) {
		return f
	}
	return &screen{file: f}
}

// screen is a terminal on which every character shows as what it is; see appendVisible.
// Safe for
// concurrent use.
type screen struct {
	file *os.File

	mu    sync.Mutex
	begun []byte // the begin of a character whose rest has not been written yet; guarded by mu
	buf   []byte // guarded by mu
}

// Write implements io.Writer.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := slices.Concat(s.begun, b)
	s.buf, s.begun = appendVisible(s.buf[:0], text)
	if _, err := s.file.Write(s.buf); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Clear clears w, if it is a terminal.
func Clear(w io.Writer) error {
	if !IsTerminal(w) {
		return nil
	}
	_, err := io.WriteString(fileOf(w), "\x1b[H\x1b[2J") // home, clear
	return err
}

// appendVisible appends text with every character escaped that a terminal would obey, or
// that would hide or reorder what stands beside it: controls other than newline and tab,
// C1 ones among them, bidirectional and invisible ones, and bytes that are not UTF-8.
// Inside of JSON strings an escaped character means what it meant. rest is the begin of
// a character that text ends with.
func appendVisible(to, text []byte) (visible, rest []byte) {
	for len(text) > 0 {
		if !utf8.FullRune(text) {
			return to, text
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			to = fmt.Appendf(to, `\x%02x`, text[0])
		case r == '\n' || r == '\t' || unicode.IsGraphic(r):
			to = append(to, text[:size]...)
		case r > 0xffff: // as JSON has it
			r -= 0x10000
			to = fmt.Appendf(to, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			to = fmt.Appendf(to, `\u%04x`, r)
		}
		text = text[size:]
	}
	return to, nil
}
