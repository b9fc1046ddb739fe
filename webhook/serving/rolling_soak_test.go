//go:build soak

package serving

import (
	"testing"
	"time"
)

// By the clock too no review fails while pods are replaced one after the other. Without one of
// the rules, some do.
func TestRollingRestartInTime(t *testing.T) {
	t.Parallel()
	const delay = 1500 * time.Millisecond // on a busy machine the balancer is late
	for name, tt := range map[string]struct {
		rules podRules
		fails bool
	}{
		"by the rules":          {podRules{ShutdownDelay: delay}, false},
		"without ShutdownDelay": {podRules{ShutdownDelay: -1}, true},
		"cut off":               {podRules{ShutdownDelay: delay, DieAtOnce: true}, true},
		"ready before it is":    {podRules{ShutdownDelay: delay, ReadyAtOnce: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restarts := 5
			if tt.fails {
				restarts = 2
			}
			r, made := newRollout(t, tt.rules), 0
			var failures []string
			// Whether a review meets the moment that a broken rule leaves open is chance.
			for round := 0; round == 0 || tt.fails && len(failures) == 0 && round < 10; round++ {
				failures = r.replace(t, restarts)
				made += restarts
			}
			t.Logf("%d restarts: %d of %d reviews failed", made, len(failures), r.sent)
			if r.sent < 10*made { // a slow machine sends few
				t.Errorf("only %d reviews were sent", r.sent)
			}
			if tt.fails && len(failures) == 0 {
				t.Error("no review failed: the test would not notice the rule")
			}
			if !tt.fails && len(failures) > 0 {
				t.Errorf("%d of %d reviews failed, such as %q", len(failures), r.sent, failures[:min(len(failures), 5)])
			}
		})
	}
}
