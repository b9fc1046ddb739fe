package terminal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

// Console is where a person reads messages. On a terminal its last line shows the progress.
// Safe for concurrent use.
type Console struct {
	w   io.Writer
	raw io.Writer // the terminal, for control sequences; nil when w is none, or knows none

	mu    sync.Mutex
	drawn bool // the cursor is behind a progress line
}

// NewConsole returns a console on w.
func NewConsole(w io.Writer) *Console {
	c := &Console{w: w}
	if IsTerminal(w) && os.Getenv("TERM") != "dumb" {
		c.raw = fileOf(w)
	}
	return c
}

// Say writes a message. A failure to write is dropped.
func (c *Console) Say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	fmt.Fprintf(c.w, format+"\n", args...)
}

// Beside returns a writer to w for whole lines. Each write first removes the progress line.
func (c *Console) Beside(w io.Writer) io.Writer { return beside{c, w} }

type beside struct {
	c *Console
	w io.Writer
}

// Write implements io.Writer.
func (b beside) Write(p []byte) (int, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.c.clear()
	return b.w.Write(p)
}

// draw replaces the progress line by text, cut to the width of the terminal. An empty text
// removes the line. Without a terminal there is none.
func (c *Console) draw(text string) {
	if c.raw == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	runes := []rune(text)
	// A line that fills the last column takes a second one on some terminals.
	runes = runes[:min(len(runes), cmp.Or(Width(c.raw), usualWidth)-1)]
	fmt.Fprint(c.w, string(runes))
	c.drawn = text != ""
}

// usualWidth is that of a terminal that does not tell it.
const usualWidth = 80

// clear removes the progress line. Callers hold mu.
func (c *Console) clear() {
	if c.drawn {
		fmt.Fprint(c.raw, "\r\x1b[K")
		c.drawn = false
	}
}

// WriteJSON writes v as one document.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
