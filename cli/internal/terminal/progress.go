package terminal

import (
	"fmt"
	"math"
	"slices"
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
	// rateTime is over how long, or twice that, the rate is measured: a mean since the start
	// hides that nothing goes on any more.
	rateTime = 5 * time.Second
	// maxLeft is the longest time left that is shown: beyond it the work does not get on.
	maxLeft = 100 * time.Hour
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
	p := pace{from: mark{at: began}, next: mark{at: began}}
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
				w := now()
				rate := p.rate(w.Done, at)
				if c.raw != nil && at.Sub(began) >= quickTime {
					c.draw(w.line(rate, c.width()))
				} else if text := w.line(rate, 0); c.raw == nil && text != said {
					c.Say("%s", text)
					said = text
				}
			}
		}
	}()
	return sync.OnceFunc(func() { close(end); <-ended })
}

// pace is how fast work goes.
type pace struct{ from, next mark }

// mark is how far work was at a time.
type mark struct {
	at   time.Time
	done int64
}

// rate is how much was done per second lately, when done is as of now.
func (p *pace) rate(done int64, now time.Time) float64 {
	if now.Sub(p.next.at) >= rateTime {
		p.from, p.next = p.next, mark{now, done}
	}
	return float64(done-p.from.done) / max(now.Sub(p.from.at), time.Millisecond).Seconds()
}

// line is w in one line of at most width columns; 0 is for a line without bounds.
func (w Work) line(rate float64, width int) string {
	var share, left string
	amount := w.amount(w.Done)
	if w.Total > 0 && w.Done <= w.Total {
		share = fmt.Sprintf("%.0f%%", math.Floor(100*float64(w.Done)/float64(w.Total)))
		if w.Noun != "" {
			amount = fmt.Sprint(w.Done)
		}
		amount += " of " + w.amount(w.Total)
		if seconds := math.Ceil(float64(w.Total-w.Done) / rate); seconds > 0 && seconds < maxLeft.Seconds() {
			left = (time.Duration(seconds) * time.Second).String() + " left"
		}
	}
	parts := []string{share, left, w.Note, amount, w.amount(int64(math.Round(rate))) + "/s"}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	text := []rune(w.What + ": " + strings.Join(parts, ", "))
	if width > 0 {
		text = text[:min(width, len(text))]
	}
	return string(text)
}

// amount is n of what Done counts.
func (w Work) amount(n int64) string {
	if w.Noun == "" {
		return human.Size(n)
	}
	return human.Count(uint64(max(n, 0)), w.Noun)
}
