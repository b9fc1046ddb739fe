package terminal

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWorkLine(t *testing.T) {
	half := Work{What: "reading the export", Done: 2 << 20, Total: 4 << 20, Note: "3 found"}
	for name, test := range map[string]struct {
		work  Work
		rate  float64
		width int
		want  string
	}{
		"all":               {half, 1 << 20, 0, "reading the export: 50%, 2s left, 3 found, 2 MiB of 4 MiB, 1 MiB/s"},
		"narrow":            {half, 1 << 20, 30, "reading the export: 50%, 2s le"},
		"total not known":   {Work{What: "searching", Done: 3 << 20, Note: "no match"}, 0, 79, "searching: no match, 3 MiB, 0 B/s"},
		"total known wrong": {Work{What: "searching", Done: 3 << 20, Total: 2 << 20}, 0, 79, "searching: 3 MiB, 0 B/s"},
		"begun":             {Work{What: "checking", Total: 5, Noun: "sink"}, 0, 79, "checking: 0%, 0 of 5 sinks, 0 sinks/s"},
		"nearly done":       {Work{What: "checking", Done: 999, Total: 1000, Noun: "record"}, 0.7, 79, "checking: 99%, 2s left, 999 of 1000 records, 1 record/s"},
		"hardly moves":      {Work{What: "checking", Done: 1, Total: 1 << 60}, 1e-3, 0, "checking: 0%, 1 B of 1048576 TiB, 0 B/s"},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.work.line(test.rate, test.width)
			if got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// TestFollow: on a terminal a line that moves, elsewhere a line each 10 s that says
// something new, and nothing of work that is done within a second.
func TestFollow(t *testing.T) {
	for name, test := range map[string]struct {
		terminal bool
		took     time.Duration
		want     string
	}{
		"quick, terminal": {true, 900 * time.Millisecond, ""},
		"quick, log":      {false, 900 * time.Millisecond, ""},
		"short, log":      {false, 9900 * time.Millisecond, ""},
		"terminal": {true, 1500 * time.Millisecond, "" +
			"work: 10%, 9s left, 10 of 100 records, 10 records/s\r\x1b[K" +
			"work: 12%, 9s left, 12 of 100 records, 10 records/s\r\x1b[K" +
			"work: 14%, 9s left, 14 of 100 records, 10 records/s\r\x1b[K"},
		// It does 10 records a second for 20 s, and nothing after that.
		"log": {false, 55 * time.Second, "" +
			"work: 100 records, 10 records/s\n" +
			"work: 200 records, 10 records/s\n" +
			"work: 200 records, 0 records/s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b strings.Builder
				c := &Console{w: &b}
				total := int64(0)
				if test.terminal {
					c.raw, total = &b, 100
				}
				began := time.Now()
				stop := c.Follow(func() Work {
					done := min(200, int64(time.Since(began)/(100*time.Millisecond)))
					return Work{What: "work", Done: done, Total: total, Noun: "record"}
				})
				time.Sleep(test.took)
				stop()
				stop()
				if got := b.String(); got != test.want {
					t.Errorf("got  %q\nwant %q", got, test.want)
				}
			})
		})
	}
}
