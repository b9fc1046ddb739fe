package terminal

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWork(t *testing.T) {
	for want, work := range map[string]Work{
		"reading the export: 50%, 2 MiB of 4 MiB, 3 found": {What: "reading the export", Done: 2 << 20, Total: 4 << 20, Note: "3 found"},
		"searching: 3 MiB, no match":                       {What: "searching", Done: 3 << 20, Note: "no match"},
		"searching: 3 MiB":                                 {What: "searching", Done: 3 << 20, Total: 2 << 20},
		"checking: 0%, 0 sinks of 5 sinks":                 {What: "checking", Total: 5, Noun: "sink"},
		"checking: 99%, 999 records of 1000 records":       {What: "checking", Done: 999, Total: 1000, Noun: "record"},
	} {
		if got := work.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
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
			"work: 10%, 10 records of 100 records\r\x1b[K" +
			"work: 12%, 12 records of 100 records\r\x1b[K" +
			"work: 14%, 14 records of 100 records\r\x1b[K"},
		// It does 10 records a second for 20 s, and nothing after that.
		"log": {false, 55 * time.Second, "" +
			"work: 100 records\n" +
			"work: 200 records\n"},
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
