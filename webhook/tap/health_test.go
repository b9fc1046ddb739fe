package tap

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An engine that fails and answers by turns, or in ever other ways, does not fill the log. No
// failure is left out of the count.
func TestFlappingEngine(t *testing.T) {
	for name, answers := range map[string]bool{"flapping": true, "failing": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				h := &health{log: slog.New(slog.NewTextHandler(&log, nil))}
				const hours = 2
				for n := range hours * 3600 {
					h.fails(fmt.Errorf("failure %d", n))
					if answers {
						h.works()
					}
					time.Sleep(time.Second)
				}
				if failed, most := strings.Count(log.String(), "does not answer"), maxTold*hours*6; failed != most {
					t.Errorf("got %d failures logged in %d hours, want %d", failed, hours, most)
				}
				time.Sleep(quietTime)
				h.fails(errors.New("the last"))
				h.works()
				total := 0
				for line := range strings.Lines(log.String()) {
					var n int
					if _, count, ok := strings.Cut(line, "failed="); ok {
						fmt.Sscan(count, &n)
					}
					total += n
				}
				if total != hours*3600+1 {
					t.Errorf("got %d failures counted, want %d", total, hours*3600+1)
				}
			})
		})
	}
}

// An engine can put neither much nor control characters into the log.
func TestReasonIsBounded(t *testing.T) {
	var log strings.Builder
	h := &health{log: slog.New(slog.NewTextHandler(&log, nil))}
	h.fails(fmt.Errorf("malformed answer \x1b[2J\n\u202e%s", strings.Repeat("x", 1<<20)))
	if n := log.Len(); n > 2*maxReason || strings.ContainsAny(log.String(), "\x1b\u202e") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("got a line of %d bytes:\n%.200q", n, log.String())
	}
}
