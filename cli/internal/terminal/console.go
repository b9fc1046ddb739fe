package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// barWidth leaves room on a line of 80 columns for counts in the millions.
const barWidth = 20

// Bar shows which part of the work is done, from 0 to 1, and how many percent that are.
func Bar(part float64) string {
	full := int(part * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), 100*part)
}

// Console is where a person reads messages. On a terminal its last line shows
// the progress. Safe for concurrent use.
type Console struct {
	w   io.Writer
	raw io.Writer // the terminal, for control sequences; nil when w is none

	mu    sync.Mutex
	drawn bool // the cursor is behind a progress line
}

// NewConsole returns a console on w.
func NewConsole(w io.Writer) *Console {
	c := &Console{w: w}
	if IsTerminal(w) {
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

// Draw replaces the progress line by text, which may be empty. Without a terminal
// there is none.
func (c *Console) Draw(text string) {
	if c.raw == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	fmt.Fprint(c.w, text)
	c.drawn = text != ""
}

func (c *Console) clear() {
	if c.drawn {
		fmt.Fprint(c.raw, "\r\x1b[K")
		c.drawn = false
	}
}

// RedrawInterval is often enough for a line that moves, and costs nothing.
const RedrawInterval = 200 * time.Millisecond

// WriteJSON writes v as one document.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
