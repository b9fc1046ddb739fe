package queue

import (
	"testing"
	"time"
)

// A producer that connects again and repeats lines does not move its position
// back: the lines behind them would be stored twice.
func TestRepeatedLinesDoNotMoveAPositionBack(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	c := chunk("1", "2", "3", "4", "5")
	c.Producer, c.Position = "p", 5
	store(t, q, c)
	store(t, q, &Chunk{Source: "test", Producer: "p", Position: 2, Received: time.Now(), Duplicates: 2})
	for _, when := range []string{"at once", "after reopen"} {
		if n, _, err := highest(t.Context(), q, Producer{Source: "test", Name: "p"}); n != 5 || err != nil {
			t.Errorf("position %s: got %d, %v, want 5", when, n, err)
		}
		closeQueue(t, q)
		q = open(t, opts)
	}
}
