package terminal

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func TestWorkLine(t *testing.T) {
	half := Work{What: "reading the export", Done: 2 << 20, Total: 4 << 20, Note: "3 found"}
	for name, test := range map[string]struct {
		work  Work
		rate  float64
		width int
		want  string
	}{
		"a log":             {half, 1 << 20, 0, "reading the export: 50%, 2 MiB of 4 MiB, 1 MiB/s, 2s left, 3 found"},
		"wide":              {half, 1 << 20, 120, "reading the export: [==========          ] 50%, 2 MiB of 4 MiB, 1 MiB/s, 2s left, 3 found"},
		"no room for a bar": {half, 1 << 20, 79, "reading the export: 50%, 2 MiB of 4 MiB, 1 MiB/s, 2s left, 3 found"},
		"nor for all":       {half, 1 << 20, 60, "reading the export: 50%, 2s left, 3 found"},
		"hardly any":        {half, 1 << 20, 30, "reading the export: 50%, 2s le"},
		"total not known":   {Work{What: "searching", Done: 3 << 20, Note: "no match"}, 0, 79, "searching: 3 MiB, 0 B/s, no match"},
		"total known wrong": {Work{What: "searching", Done: 3 << 20, Total: 2 << 20}, 0, 79, "searching: 3 MiB, 0 B/s"},
		"begun":             {Work{What: "checking", Total: 5, Noun: "sink"}, 0, 79, "checking: [                    ] 0%, 0 of 5 sinks, 0 sinks/s"},
		"nearly done":       {Work{What: "checking", Done: 999, Total: 1000, Noun: "record"}, 0.7, 79, "checking: [=================== ] 99%, 999 of 1000 records, 1 record/s, 2s left"},
		"done":              {Work{What: "checking", Done: 5, Total: 5, Noun: "sink"}, 2, 79, "checking: [====================] 100%, 5 of 5 sinks, 2 sinks/s"},
		"hardly moves":      {Work{What: "checking", Done: 1, Total: 1 << 60}, 1e-3, 0, "checking: 0%, 1 B of 1048576 TiB, 0 B/s"},
		"long":              {Work{What: "checking", Done: 1, Total: 3602, Noun: "file"}, 0.5, 0, "checking: 0%, 1 of 3602 files, 1 file/s, 2h0m2s left"},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.work.line(test.rate, test.width)
			if got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			if n := utf8.RuneCountInString(got); test.width > 0 && n > test.width {
				t.Errorf("got %d columns, want at most %d", n, test.width)
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
			"work: [==                  ] 10%, 10 of 100 records, 10 records/s, 9s left\r\x1b[K" +
			"work: [==                  ] 12%, 12 of 100 records, 10 records/s, 9s left\r\x1b[K" +
			"work: [==                  ] 14%, 14 of 100 records, 10 records/s, 9s left\r\x1b[K"},
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
