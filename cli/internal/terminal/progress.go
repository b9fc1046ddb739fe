package terminal

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/docket-export/docket/internal/human"
)

// Work is how far some work is.
type Work struct {
	What  string // what goes on: "reading the export"
	Done  int64
	Total int64  // 0: not known; it counts as not known from where Done is above it
	Noun  string // what Done counts, in the singular: "record"; "": bytes
	Note  string // what else there is to know; may be empty
}

const (
	// redrawInterval is often enough for a line that moves, and costs nothing.
	redrawInterval = 200 * time.Millisecond
	// quickTime is how long work may take without a word.
	quickTime = time.Second
	// plainInterval is how often a log or a file gets a line of its own.
	plainInterval = 10 * time.Second
)

// Follow shows the progress of the work until stop is called. A terminal gets one line that
// is redrawn. Any other output gets a line each 10 s, unless the line says the same as
// before. Work that ends within a second shows nothing.
//
// Follow calls now from one other goroutine, and never after stop has returned. Done must
// not fall. Other lines for the same terminal must go through Beside.
func (c *Console) Follow(now func() Work) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		defer c.draw("")
		interval := redrawInterval
		if c.raw == nil {
			interval = plainInterval
		}
		tick := time.NewTicker(interval)
		defer tick.Stop()
		said := ""
		for {
			select {
			case <-end:
				return
			case at := <-tick.C:
				text := now().String()
				if c.raw != nil && at.Sub(began) >= quickTime {
					c.draw(text)
				} else if c.raw == nil && text != said {
					c.Say("%s", text)
					said = text
				}
			}
		}
	}()
	return sync.OnceFunc(func() { close(end); <-ended })
}

// String is w in one line.
func (w Work) String() string {
	parts := []string{w.amount(w.Done)}
	if w.Total > 0 && w.Done <= w.Total {
		parts = []string{fmt.Sprintf("%d%%", int64(100*float64(w.Done)/float64(w.Total))), parts[0] + " of " + w.amount(w.Total)}
	}
	if w.Note != "" {
		parts = append(parts, w.Note)
	}
	return w.What + ": " + strings.Join(parts, ", ")
}

// amount is n of what Done counts.
func (w Work) amount(n int64) string {
	if w.Noun == "" {
		return human.Size(n)
	}
	return human.Count(uint64(max(n, 0)), w.Noun)
}
