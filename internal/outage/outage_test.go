package outage

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A minute of failures and what is said of it.
func TestLog(t *testing.T) {
	for name, test := range map[string]struct {
		failure    func(n int) string // "": it works
		said, well int
	}{
		"works":           {func(int) string { return "" }, 0, 0},
		"one outage":      {func(n int) string { return pick(n < 60, "down") }, 1, 1},
		"own port":        {func(n int) string { return pick(n < 60, fmt.Sprintf("read tcp 10.0.0.1:%d->10.0.0.2:443: reset", n)) }, 1, 1},
		"three brokers":   {func(n int) string { return pick(n < 60, fmt.Sprint("broker ", n%3)) }, 3, 1},
		"ever other ways": {func(n int) string { return pick(n < 60, fmt.Sprint("request ", n)) }, maxTold, 1},
		"by turns":        {func(n int) string { return pick(n%2 == 0, "down") }, maxTold, maxTold},
		"two outages":     {func(n int) string { return pick(n < 20 || n >= 40 && n < 60, "down") }, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l Log
				said, well, failures := 0, 0, 0
				for n := range 60 {
					if text := test.failure(n); text == "" {
						if _, news := l.Works(); news {
							well++
						}
					} else if failures++; l.Fails(text) {
						said++
					}
					time.Sleep(time.Second - time.Millisecond)
				}
				if _, news := l.Works(); news {
					well++
				}
				if said != test.said || well != test.well {
					t.Errorf("got %d failures and %d recoveries said of %d failures, want %d and %d", said, well, failures, test.said, test.well)
				}
			})
		})
	}
}

func pick(failing bool, text string) string {
	if failing {
		return text
	}
	return ""
}

// What fails by turns is told of once a minute, and all failures are counted.
func TestFailuresAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Log
		for range maxTold {
			l.Fails("down")
			l.Works()
		}
		for range 9 {
			if l.Fails("down") {
				t.Error("said a failure, want none before a minute has passed")
			}
			if _, news := l.Works(); news {
				t.Error("said that it works, want nothing of failures that were not said")
			}
		}
		time.Sleep(quietTime)
		if !l.Fails("down") {
			t.Error("got nothing said after a minute")
		}
		if n, news := l.Works(); n != 10 || !news {
			t.Errorf("got %d failures, %t, want 10 since it was said last", n, news)
		}
		if l.Fails("down") {
			t.Error("said another failure, want one a minute")
		}
	})
}
